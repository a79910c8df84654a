//! The term during which this process may call what changes the world.

use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// One term of being the active operator. Without a Lease it is the life of the process.
///
/// A turn belongs to the term in which it began and dies with it; the check stands right before each mutating call and
/// uses the monotonic clock (design section 4, rule 4).
#[derive(Clone, Debug)]
pub struct Term {
    ended: CancellationToken,
}

impl Term {
    /// A term that begins now and ends when `ended` is cancelled.
    pub fn begin(ended: CancellationToken) -> Self {
        Self { ended }
    }

    /// Whether a mutating call that takes at most `needed` may begin before `turn_ends`.
    pub fn allows(&self, turn_ends: Instant, needed: Duration) -> bool {
        !self.ended.is_cancelled() && turn_ends.saturating_duration_since(Instant::now()) >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_needs_a_living_term_and_time_to_spare() {
        let end = CancellationToken::new();
        let term = Term::begin(end.clone());
        let turn_ends = Instant::now() + Duration::from_secs(90);
        assert!(term.allows(turn_ends, Duration::from_secs(60)));
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(
            !term.allows(turn_ends, Duration::from_secs(60)),
            "a call that could outlive the turn"
        );
        end.cancel();
        assert!(
            !term.allows(turn_ends, Duration::from_secs(1)),
            "a term that is over"
        );
    }
}
