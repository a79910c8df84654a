//! The theme of a random schedule, in addition to the ordinary life of a server.

use crate::fault::{Step, Timed};
use crate::specs;
use crate::universe::{ImportBy, Setting};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use std::time::Duration;

/// One import in this many is not allowed by the Account.
const DENIED: u64 = 10;

/// A theme. With all of them at once, hardly any schedule would complete anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// The ordinary life.
    Ordinary,
    /// The operator generates the password.
    Login,
    /// An existing server is imported.
    Import,
    /// An externally released server is replaced.
    Recreate,
    /// The policies of the Instance change.
    Policies,
    /// Image and package are selected by properties.
    Names,
    /// The Account's limit is below the number of Instances.
    Limit,
}

impl Theme {
    /// A random theme. More than a third of all schedules have the ordinary one.
    pub fn choose(dice: &mut StdRng) -> Self {
        match dice.random_range(0..100) {
            0..36 => Self::Ordinary,
            36..40 => Self::Limit,
            40..56 => Self::Login,
            56..68 => Self::Import,
            68..79 => Self::Recreate,
            79..92 => Self::Policies,
            _ => Self::Names,
        }
    }

    /// Applies the theme to every Instance's spec.
    pub fn set(self, setting: &mut Setting, dice: &mut StdRng) {
        match self {
            Self::Ordinary => {}
            Self::Limit => setting.most = Some(dice.random_range(0..=1)),
            Self::Login => {
                setting.by_key = false;
                setting.spec.push(specs::generated());
            }
            Self::Import => {
                let by = [ImportBy::Id, ImportBy::Name];
                setting.import = by.choose(dice).copied();
                let more = [json!({}), specs::retains(), specs::recreates(2)];
                setting.spec.push(one_of(dice, &more));
                if dice.random_bool(0.3) {
                    setting.by_key = false;
                    setting.spec.push(specs::generated());
                }
            }
            Self::Recreate => {
                let limit = dice.random_range(0..=2);
                setting.spec.push(specs::recreates(limit));
            }
            Self::Policies => {
                setting.spec.push(policy(dice));
                if dice.random_bool(0.3) {
                    setting.stop = Some(Duration::from_secs(40));
                }
            }
            Self::Names => {
                setting.spec.push(specs::by_name());
                if setting.by_key {
                    // A merge patch of another login would set both.
                    setting.by_key = false;
                }
            }
        }
    }

    /// Whether the Account denies the import. Derived from the seed and not from the dice, so that all other draws stay the
    /// same.
    pub fn is_denied(self, seed: u64) -> bool {
        self == Self::Import && seed.is_multiple_of(DENIED)
    }

    /// The steps without which the theme would not be exercised at all.
    pub fn steps(self, dice: &mut StdRng) -> Vec<Timed> {
        let at = 500 + dice.random_range(0..20_000);
        let mut steps = Vec::new();
        let mut then = |at: u64, step: Step| steps.push(Timed { at, step });
        match self {
            Self::Login if dice.random_bool(0.5) => {
                then(at, Step::Spec(1, specs::rotates()));
                then(at + 45_000, Step::Spec(1, specs::rotates_no_more()));
            }
            Self::Import if dice.random_bool(0.6) => {
                then(500 + dice.random_range(0..3_000), Step::Apply(2));
            }
            Self::Limit => {
                then(500 + dice.random_range(0..3_000), Step::Apply(2));
                // Most limits are raised at some time.
                if dice.random_bool(0.7) {
                    then(at + 20_000, Step::Most(dice.random_range(1..=2)));
                }
            }
            Self::Recreate => then(at, Step::ConsoleRelease(1)),
            // Most pauses end at some time.
            Self::Policies if dice.random_bool(0.8) => {
                then(at + 60_000, Step::Spec(1, specs::goes_on()));
                if dice.random_bool(0.5) {
                    then(at + 60_000, Step::Spec(1, specs::management("Manage")));
                }
            }
            _ => {}
        }
        steps
    }

    /// An additional user action of the theme.
    pub fn step(self, dice: &mut StdRng) -> Option<Step> {
        Some(match self {
            Self::Ordinary => return None,
            Self::Limit => match dice.random_range(0..6) {
                0 => Step::Delete(2),
                1 => Step::Apply(2),
                2 => Step::ConsoleRelease(2),
                3 => Step::Most(dice.random_range(0..=2)),
                _ => Step::Delete(1),
            },
            Self::Login => match dice.random_range(0..6) {
                0..3 => Step::EditLogin(1),
                3 => Step::DropLogin(1),
                4 => Step::DropConnection(1),
                _ => Step::EditImage(1),
            },
            Self::Import => match dice.random_range(0..5) {
                0 => Step::Delete(2),
                1 => Step::ConsoleRelease(2),
                2 => Step::Apply(2),
                3 => Step::EditImage(2),
                _ => Step::Delete(1),
            },
            Self::Recreate => Step::ConsoleRelease(1),
            Self::Policies => match dice.random_range(0..6) {
                0 => Step::Acknowledge(1),
                1 => Step::EditImage(1),
                2 => Step::Delete(1),
                _ => Step::Spec(1, policy(dice)),
            },
            Self::Names => match dice.random_range(0..4) {
                0 => Step::OfferImage,
                1 => Step::WithdrawImage,
                2 => Step::SellOut,
                _ => Step::Restock,
            },
        })
    }
}

/// A random policy of a spec.
fn policy(dice: &mut StdRng) -> Value {
    let until = dice.random_range(1..120);
    let all = [
        specs::reinstalls("OnRequest"),
        specs::reinstalls("Never"),
        specs::reinstalls("Automatic"),
        specs::retains(),
        specs::protected(true),
        specs::protected(false),
        specs::management("Observe"),
        specs::management("Manage"),
        specs::paused(),
        specs::paused_until(until),
        specs::resyncs(),
        specs::goes_on(),
        specs::recreates(1),
        specs::forces("Always"),
        specs::forces("AfterGracePeriod"),
    ];
    one_of(dice, &all)
}

/// A random element.
fn one_of(dice: &mut StdRng, all: &[Value]) -> Value {
    all.choose(dice).cloned().unwrap_or_default()
}
