//! The circuit breaker. If many known servers are missing from one listing, the listings of that zone prove no absence until
//! each of these servers is listed again or accounted for.
//!
//! A token of another account, a wrong zone, or a partial outage of the service look exactly as if all servers were gone. Fewer
//! than three missing servers do not open the breaker. The rule that absence alone decides nothing protects those.

use std::collections::HashSet;

use super::pass::Pass;
use crate::cloud::ServerId;

/// Fewer vanished servers do not open the breaker: a user may have deleted them in the service's console.
const MIN_VANISHED: usize = 3;
/// The breaker opens if at least one in this many of the known servers vanished, and at least [`MIN_VANISHED`].
const ONE_IN: usize = 20;

/// A server on record, as the breaker counts it.
pub(super) struct ExpectedServer {
    pub id: ServerId,
    /// No operation is in progress, so a listing should show the server even if no pass has shown it yet.
    pub quiet: bool,
}

/// The state of the breaker for one place. A good pass is one after which the breaker is closed.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// Servers on record that the last good pass showed.
    shown: HashSet<ServerId>,
    /// Servers on record that the last good pass was compared with, whether it showed them or not. So a server that was missing,
    /// with too few others to open the breaker, is not counted again.
    judged: HashSet<ServerId>,
    /// Servers without an operation in progress that came on record after the newest pass, which does not show them.
    suspects: HashSet<ServerId>,
    /// Servers that vanished. The breaker is open while one is left.
    missing: HashSet<ServerId>,
}

impl Breaker {
    /// Whether so many servers vanished at once that the listings of the place prove no absence.
    pub(super) fn is_open(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Compares a pass with the servers on record. The caller leaves out those that are being released or confirmed gone.
    pub(super) fn judge(&mut self, pass: &Pass, recorded: &[ExpectedServer]) {
        self.suspects.clear();
        let expected = |server: &ExpectedServer| {
            self.shown.contains(&server.id) || (server.quiet && !self.judged.contains(&server.id))
        };
        let known = recorded.iter().filter(|server| expected(server)).count();
        let vanished = recorded
            .iter()
            .filter(|server| expected(server) && !pass.rows.contains_key(&server.id));
        let vanished: HashSet<ServerId> = vanished.map(|server| server.id.clone()).collect();
        let on_record: HashSet<&ServerId> = recorded.iter().map(|server| &server.id).collect();

        let was_open = self.is_open();
        self.missing
            .retain(|id| on_record.contains(id) && !pass.rows.contains_key(id));
        if was_open && self.is_open() {
            self.missing.extend(vanished);
            return;
        }
        // No server of an earlier pass is missing any more, so those that vanished now are judged on their own.
        if too_many(vanished.len(), known) {
            self.missing = vanished;
            return;
        }
        self.shown = on_record
            .iter()
            .filter(|id| pass.rows.contains_key(**id))
            .map(|id| (*id).clone())
            .collect();
        self.judged = on_record.into_iter().cloned().collect();
    }

    /// A server came on record that the newest pass does not show. When a process starts against the wrong account, servers come
    /// on record one after another, and the first pass had few servers to be compared with.
    pub(super) fn suspect(&mut self, id: &ServerId, on_record: usize) {
        if self.judged.contains(id) || self.missing.contains(id) {
            return;
        }
        self.suspects.insert(id.clone());
        if too_many(self.suspects.len(), on_record) {
            self.missing.extend(self.suspects.drain());
        }
    }

    /// Removes a server that is accounted for: it is confirmed gone, is being released, or no Instance has it on record.
    pub(super) fn account_for(&mut self, id: &ServerId) {
        self.missing.remove(id);
        self.suspects.remove(id);
    }
}

fn too_many(vanished: usize, known: usize) -> bool {
    vanished >= MIN_VANISHED.max(known.div_ceil(ONE_IN))
}

#[cfg(test)]
mod tests {
    use super::super::pass::{Pass, PassBuilder};
    use super::super::testing;
    use super::*;

    fn pass(ids: &[ServerId]) -> Pass {
        let row = |id: &ServerId| {
            serde_json::json!({"ecsResourceUUID": id})
                .as_object()
                .unwrap()
                .clone()
        };
        let mut builder = PassBuilder::new(None);
        let rows: Vec<_> = ids.iter().map(row).collect();
        let page = testing::page(&mut builder, rows, None);
        builder.add(page).unwrap();
        builder.finish(tokio::time::Instant::now(), tokio::time::Instant::now())
    }

    fn ids(n: usize) -> Vec<ServerId> {
        (0..n).map(|n| ServerId::from(format!("ecs-{n}"))).collect()
    }

    fn judge(breaker: &mut Breaker, listed: &[ServerId], recorded: &[ServerId]) -> usize {
        let recorded: Vec<_> = recorded
            .iter()
            .map(|id| ExpectedServer {
                id: id.clone(),
                quiet: true,
            })
            .collect();
        breaker.judge(&pass(listed), &recorded);
        breaker.missing.len()
    }

    #[test]
    fn three_servers_or_a_twentieth_vanishing_at_once_open_the_breaker() {
        for (known, vanish, breaker_open) in [
            (2, 2, false),
            (10, 2, false),
            (10, 3, true),
            (100, 4, false),
            (100, 5, true),
        ] {
            let all = ids(known);
            let mut breaker = Breaker::default();
            assert_eq!(judge(&mut breaker, &all, &all), 0);
            let expected = if breaker_open { vanish } else { 0 };
            assert_eq!(
                judge(&mut breaker, &all[vanish..], &all),
                expected,
                "{vanish} of {known}"
            );
        }
    }

    #[test]
    fn servers_that_vanish_one_by_one_do_not_open_the_breaker() {
        let all = ids(10);
        let mut breaker = Breaker::default();
        for gone in 0..10 {
            assert_eq!(judge(&mut breaker, &all[gone..], &all), 0);
        }
    }

    #[test]
    fn a_first_pass_is_compared_with_the_records() {
        let all = ids(10);
        let mut breaker = Breaker::default();
        assert_eq!(judge(&mut breaker, &[], &all), 10);
        assert_eq!(judge(&mut breaker, &all[..4], &all), 6, "some came back");
        assert_eq!(judge(&mut breaker, &all, &all), 0);
    }

    #[test]
    fn the_breaker_closes_when_each_missing_server_is_settled() {
        let all = ids(10);
        let mut breaker = Breaker::default();
        judge(&mut breaker, &all, &all);
        assert_eq!(judge(&mut breaker, &all[3..], &all), 3);
        for id in &all[..3] {
            assert!(breaker.is_open());
            breaker.account_for(id);
        }
        assert!(!breaker.is_open());
        assert_eq!(judge(&mut breaker, &all[3..], &all[3..]), 0);
    }

    #[test]
    fn a_server_being_created_is_not_expected_before_it_was_listed() {
        let all = ids(5);
        let fresh: Vec<_> = all
            .iter()
            .map(|id| ExpectedServer {
                id: id.clone(),
                quiet: false,
            })
            .collect();
        let mut breaker = Breaker::default();
        breaker.judge(&pass(&ids(1)), &fresh);
        assert!(!breaker.is_open());
    }

    #[test]
    fn later_subscriptions_of_missing_servers_open_the_breaker() {
        let all = ids(4);
        let mut breaker = Breaker::default();
        judge(&mut breaker, &[], &all[..1]);
        for id in &all[1..] {
            assert!(!breaker.is_open());
            breaker.suspect(id, 4);
        }
        assert!(breaker.is_open());
    }
}
