//! Who calls: accounts, their tokens and their standing.

use std::collections::BTreeSet;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// The standing of an account. Only a normal one may create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AccountStatus {
    /// In good standing.
    Normal,
    /// Frozen by the service.
    Frozen,
    /// Has not paid.
    Arrears,
}

/// An account of the service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Account {
    /// Its name, for tests and the ledger; the service's interface does not know it.
    pub name: String,
    /// What its calls carry in `x-open-token`.
    pub token: Secret,
    /// Its standing.
    pub status: AccountStatus,
    /// How many instances it may have; `None` for any number.
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

/// The account that a world begins with.
pub const DEFAULT_ACCOUNT: &str = "default";

/// An account with that name, or that token, is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an account with this name or token exists already")]
pub struct AccountExists;

/// There is no such account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no account {0}")]
pub struct NoSuchAccount(pub String);
