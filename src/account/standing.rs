//! How the account stands at the service: whether it may buy.

use crate::api::Account;
use crate::api::conditions::{READY, Readiness, Reason};
use crate::cloud::Standing;
use crate::session::AccountSession;
use std::time::Duration;
use tokio::time::Instant;

/// A refusal for the account's standing counts for so long: an Instance that is refused is tried again sooner, and once none is, nobody
/// knows how the account stands.
const COUNTS: Duration = Duration::from_secs(600);

/// What is told of an Account that can be used and may not do all that is asked. `began`: since when this process uses it.
pub(super) fn judge(
    account: &Account,
    session: &AccountSession,
    began: Instant,
) -> Option<Readiness> {
    let message = match session.shared.client.health().standing() {
        Standing::Abnormal(refused) if refused.at.elapsed() < COUNTS => {
            let (what, message) = (refused.operation, refused.message);
            format!(
                "the service refuses {what} for this account ({message}): settle the account's status at the service. It is tried again \
                 by itself; all that is not refused goes on"
            )
        }
        // A former process was refused.
        Standing::Unknown if began.elapsed() < COUNTS => told(account)?.to_owned(),
        Standing::Abnormal(_) | Standing::Unknown | Standing::Normal => return None,
    };
    Some(Readiness::reconciling(Reason::AccountNotNormal, message))
}

fn told(account: &Account) -> Option<&str> {
    let mut conditions = account.status.as_ref()?.conditions.iter();
    let reason = Reason::AccountNotNormal.as_str();
    let told = conditions.find(|told| told.type_ == READY && told.reason == reason);
    told.map(|told| told.message.as_str())
}
