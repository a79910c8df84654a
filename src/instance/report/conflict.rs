//! Another writer has replaced the status: a second process, or another program that writes status. Two writers that disagree
//! must not write continuously, neither the same status again nor a new one each time.

use crate::api::InstanceStatus;
use crate::api::conditions::Reason;
use crate::cloud::ServerId;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::plan::step::StatusChanges;
use crate::instance::report::is_owed;
use crate::instance::status::write::stands_otherwise;
use crate::instance::times;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The rest of the wait before another writer's status is overwritten. None if there is no conflict, and for changes that must
/// not wait: a server, an end, an operation in progress, a newer spec.
pub(super) fn wait(
    facts: &Facts,
    changes: &StatusChanges,
    reason: Option<Reason>,
    next: &InstanceStatus,
    memory: &Mutex<Memory>,
) -> Option<Duration> {
    let memory = open(memory);
    let written = memory.told.written.as_ref()?;
    let tells_another =
        changes.id.is_some() && changes.id.as_ref().map(ServerId::as_str) != written.id.as_deref();
    if !stands_otherwise(facts, &memory)
        || written.generation != facts.generation
        || tells_another
        || changes.ended.is_some()
        || is_owed(facts, changes, reason)
    {
        return None;
    }
    let since = if written.is_in(&next.conditions) {
        written.at
    } else {
        memory.told.conflict?
    };
    let rest =
        (since + times::CONFLICTING_STATUS_REWRITE).saturating_duration_since(Instant::now());
    (!rest.is_zero()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::condition_list::ListedTypes;
    use crate::api::conditions::Readiness;
    use crate::instance::memory::all::Memories;
    use crate::instance::memory::kinds::WrittenStatus;
    use crate::instance::plan::why::Why;
    use crate::instance::status::{Shown, render};
    use jiff::Timestamp;
    use serde_json::json;
    use std::sync::Arc;

    fn readiness(words: &str) -> Readiness {
        Readiness::reconciling(Reason::Releasing, words)
    }

    /// The object with a status that has this message.
    fn shows(words: &str) -> Facts {
        let status = InstanceStatus {
            conditions: readiness(words).to_conditions(&[], 1, Timestamp::UNIX_EPOCH),
            ..InstanceStatus::default()
        };
        let instance = json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
            "metadata": {"name": "web", "namespace": "ns", "uid": "u", "generation": 1},
            "spec": {"region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "i"},
                     "firewall": {"id": "f"}, "login": {"sshKey": {"id": "k"}}},
            "status": status,
        });
        Facts::of("cluster", &serde_json::from_value(instance).unwrap())
    }

    fn written(words: &str) -> Option<Box<WrittenStatus>> {
        let written = WrittenStatus {
            at: Instant::now(),
            generation: shows(words).generation,
            reason: Reason::Releasing,
            message: words.to_owned(),
            is_stalled: false,
            id: None,
        };
        Some(Box::new(written))
    }

    fn memory() -> Arc<Mutex<Memory>> {
        let memories = Memories::default();
        memories.saw("u", &shows("mine").key, true);
        memories.get("u").unwrap()
    }

    /// How long the write of this message waits if status shows another one.
    fn waits(shown: &str, says: &str, memory: &Mutex<Memory>) -> Option<Duration> {
        waits_at(&shows(shown), says, memory)
    }

    fn waits_at(facts: &Facts, says: &str, memory: &Mutex<Memory>) -> Option<Duration> {
        let (changes, why) = (StatusChanges::default(), Why::from(readiness(says)));
        let (now, shown) = (Timestamp::UNIX_EPOCH, Shown::unchanged(facts));
        let next = render(facts, now, &changes, Some(&why), &shown);
        wait(facts, &changes, None, &next, memory)
    }

    #[test]
    fn the_same_words_are_not_said_again_at_once() {
        let memory = memory();
        assert_eq!(waits("theirs", "mine", &memory), None, "nothing was said");
        open(&memory).told.written = written("mine");
        assert!(waits("theirs", "mine", &memory).is_some());
        assert_eq!(waits("mine", "another", &memory), None, "its own words");
    }

    #[tokio::test(start_paused = true)]
    async fn somebody_elses_words_are_written_over_once_in_half_a_minute() {
        let memory = memory();
        open(&memory).told.written = written("mine");
        assert_eq!(waits("theirs", "another", &memory), None, "the first time");
        open(&memory).told.conflict = Some(Instant::now());
        let rest = waits("theirs", "another", &memory).unwrap();
        assert_eq!(waits("mine", "another", &memory), None, "nobody else spoke");
        tokio::time::advance(rest).await;
        assert_eq!(waits("theirs", "another", &memory), None, "its time came");
        assert_eq!(waits("theirs", "mine", &memory), None, "whatever it says");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_of_another_controller_alone_is_written_over_once_in_half_a_minute() {
        let memory = memory();
        open(&memory).told.written = written("mine");
        let mut facts = shows("mine");
        let all = &mut Arc::make_mut(&mut facts.status).conditions;
        let mut others = all[0].clone();
        (others.type_, *all) = ("Paid".to_owned(), Vec::new());
        facts.listed_types = ListedTypes::take(&mut vec![others]).into();
        let rest = waits_at(&facts, "mine", &memory).unwrap();
        tokio::time::advance(rest).await;
        assert_eq!(waits_at(&facts, "mine", &memory), None);
        // A status without conditions was lost.
        open(&memory).told.written = written("mine");
        facts.listed_types = Arc::default();
        assert_eq!(waits_at(&facts, "mine", &memory), None);
    }

    #[test]
    fn a_status_whose_answer_was_lost_is_nobody_elses() {
        let memory = memory();
        {
            let mut memory = open(&memory);
            (memory.told.written, memory.told.unanswered) = (written("mine"), written("sent"));
            memory.told.conflict = Some(Instant::now());
        }
        assert_eq!(waits("sent", "another", &memory), None);
        assert!(waits("theirs", "another", &memory).is_some());
    }
}
