use super::*;

#[test]
fn what_moves_by_itself_is_no_change() {
    let with = |flow: f64, cpu: i64| {
        let mut status = InstanceStatus::default();
        status.detail.insert("usedFlow".into(), json!(flow));
        status.detail.insert("cpu".into(), json!(cpu));
        status
    };
    assert!(!differs(&with(1.0, 2), &with(2.0, 2)));
    assert!(differs(&with(1.0, 2), &with(1.0, 4)));
}

#[test]
fn two_who_say_the_same_in_other_words_do_not_write_in_turn() {
    let verdict = |words: &str| Verdict::reconciling(Reason::Releasing, words);
    let facts = |words: &str| {
        let status = InstanceStatus {
            conditions: verdict(words).to_conditions(&[], 1, Timestamp::UNIX_EPOCH),
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
    };
    let memories = crate::instance::memory::Memories::default();
    memories.saw("u", &facts("mine").key, true);
    let memory = memories.get("u").unwrap();
    let waits = |shown: &str, says: &str| {
        let (facts, tell) = (facts(shown), Tell::default());
        let next = status(&facts, Timestamp::UNIX_EPOCH, &tell, Some(&verdict(says)));
        gainsaid(&facts, &tell, &next, &memory).is_some()
    };
    assert!(!waits("theirs", "mine"), "nothing was said yet");
    open(&memory).said = Some(Said {
        at: Instant::now(),
        generation: facts("mine").generation,
        reason: Reason::Releasing,
        message: "mine".to_owned(),
        is_stalled: false,
        id: None,
    });
    assert!(waits("theirs", "mine"));
    assert!(!waits("mine", "something else"), "its own words, and news");
    assert!(!waits("theirs", "something else"), "the first time");
    open(&memory).gainsaid = Some(Instant::now());
    assert!(waits("theirs", "something else"), "each time another word");
    assert!(!waits("mine", "something else"), "nobody else speaks");
}
