//! Times of an Account that several places share, each with its reason.

use std::time::Duration;

/// How often an Account is looked at when nothing happens. Costs no call while its listings succeed.
pub const LOOKED_AT_AGAIN: Duration = Duration::from_secs(30);

/// A token that the service refuses is tried this often, once for all Instances of the Account: where the refusal was the
/// service's own trouble, Instances go on within 30 s after it is over.
pub const TOKEN_REFUSED_RETRY: Duration = Duration::from_secs(25);

/// A service on which calls cast doubt is looked at again so soon: few seconds decide.
pub const DOUBTFUL_RECHECK: Duration = Duration::from_secs(2);

/// A try that is due is not made in a rush.
pub const RETRY_MIN: Duration = Duration::from_secs(1);

/// From one try of an endpoint that does not answer to the next, at most: Instances go on within 30 s after it is back.
pub const UNREACHABLE_RETRY_MAX: Duration = Duration::from_secs(20);

/// The release of a late server is called again after this time: longer than the listings of places in which nothing else
/// is looked for are apart.
pub const LATE_RELEASE_RETRY: Duration = Duration::from_secs(400);

/// What a release needs of a reconcile.
pub const RELEASE_CALL: Duration = Duration::from_secs(60);
