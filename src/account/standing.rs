//! The account's standing at the service: whether it may buy servers.

use super::times;
use crate::api::Account;
use crate::api::conditions::{READY, Readiness, Reason};
use crate::cloud::AccountHealth;
use crate::session::AccountSession;
use tokio::time::Instant;

/// The readiness to report if the Account is usable but the service refuses some calls. `began`: since when this process uses it.
pub(super) fn judge(
    account: &Account,
    session: &AccountSession,
    began: Instant,
) -> Option<Readiness> {
    let message = match session.shared.client.health().account() {
        AccountHealth::Abnormal(refused)
            if refused.at.elapsed() < times::STANDING_REFUSAL_COUNTS_FOR =>
        {
            let (what, message) = (refused.operation, refused.message);
            format!(
                "the service refuses {what} for this account ({message}): settle the account's status at the service. It is tried again \
                 by itself; all that is not refused goes on"
            )
        }
        // A former process saw the refusal.
        AccountHealth::Unknown if began.elapsed() < times::STANDING_REFUSAL_COUNTS_FOR => {
            told(account)?.to_owned()
        }
        AccountHealth::Abnormal(_) | AccountHealth::Unknown | AccountHealth::Normal => return None,
    };
    Some(Readiness::reconciling(Reason::AccountNotNormal, message))
}

fn told(account: &Account) -> Option<&str> {
    let mut conditions = account.status.as_ref()?.conditions.iter();
    let reason = Reason::AccountNotNormal.as_str();
    let told = conditions.find(|told| told.type_ == READY && told.reason == reason);
    told.map(|told| told.message.as_str())
}
