//! The callers: accounts, their API tokens and their status.

use std::collections::BTreeSet;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// The status of an account. Only a normal account may create servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AccountStatus {
    /// Not restricted.
    Normal,
    /// Frozen by the service.
    Frozen,
    /// Has not paid its bills.
    Arrears,
}

/// An account of the service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Account {
    /// Its name, for tests and the ledger. It is not part of the service's interface.
    pub name: String,
    /// The value of `x-open-token` in its calls.
    pub token: Secret,
    /// Its status.
    pub status: AccountStatus,
    /// How many instances it may have; `None` means no limit.
    pub quota: Option<usize>,
    /// The regions that its token may see (field note 24); `None` for every region.
    #[serde(default)]
    pub regions: Option<BTreeSet<String>>,
}

impl Account {
    /// Whether its token may see a region.
    #[must_use]
    pub fn sees(&self, region: &str) -> bool {
        self.regions
            .as_ref()
            .is_none_or(|regions| regions.contains(region))
    }
}

/// The account that every world has from the beginning.
pub const DEFAULT_ACCOUNT: &str = "default";

/// An account with that name or that token exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an account with this name or token exists already")]
pub struct AccountExists;

/// There is no such account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no account {0}")]
pub struct NoSuchAccount(pub String);
