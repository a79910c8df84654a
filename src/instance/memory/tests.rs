use super::*;
use crate::cloud::ServerId;
use crate::instance::memory::call::Gone;
use crate::runtime::Backoff;

#[test]
fn an_observation_keeps_what_watch_and_status_writes_noted_meanwhile() {
    let now = Instant::now();
    let memory = Memory::new(false, now);
    let mut memory = lock(&memory);
    memory.note_watched_version(5, now);
    let mut copy = Memory::clone(&memory);
    copy.observations.confirmed = Some(now);
    memory.note_watched_version(9, now);
    memory.status_writes.acknowledged = Some(2);
    memory.store(&copy);
    assert!(memory.observations.confirmed.is_some());
    assert!(memory.is_newer_than("7"));
    assert_eq!(memory.status_writes.acknowledged, Some(2));
}

#[test]
fn only_the_first_finding_that_a_server_is_gone_resets_the_backoff() {
    let memory = Memory::new(true, Instant::now());
    let mut memory = lock(&memory);
    let id = ServerId::from("ecs-1");
    memory.pace.backoff.fail();
    memory.found_gone(id.clone(), Gone::NotFound);
    assert_eq!(memory.pace.backoff, Backoff::default());
    memory.pace.backoff.fail();
    memory.found_gone(id, Gone::NotFound);
    assert_ne!(memory.pace.backoff, Backoff::default());
}

#[test]
fn an_idle_instance_has_a_memory_of_at_most_768_bytes() {
    // Including the lock and the counts of the Arc. The allocator's next size would be 1,024, for each of ten thousand Instances.
    let counts = 2 * size_of::<usize>();
    assert!(counts + size_of::<std::sync::Mutex<Memory>>() <= 768);
}
