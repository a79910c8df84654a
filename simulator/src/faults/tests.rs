use serde_json::json;

use super::*;

fn call(path: &str) -> Call<'_> {
    Call {
        path,
        account: Some("default"),
        content: "",
    }
}

fn lose() -> Act {
    Act::Lose {
        when: When::BeforeEffect,
    }
}

fn hit(faults: &Faults, path: &str) -> bool {
    !faults.plan(&call(path)).names.is_empty()
}

#[test]
fn a_rule_is_met_from_the_nth_call_on_and_so_many_times() {
    let faults = Faults::new(1);
    faults.add(Rule::on("/a", lose()).nth(3).times(2));
    let met: Vec<bool> = (0..6).map(|_| hit(&faults, "/a")).collect();
    assert_eq!(met, [false, false, true, true, false, false]);
    assert!(!hit(&faults, "/b"));
}

#[test]
fn a_path_may_be_a_beginning() {
    let faults = Faults::new(1);
    faults.add(Rule::on("/instance/*", lose()));
    assert!(hit(&faults, "/instance/create"));
    assert!(!hit(&faults, "/image/list"));
}

#[test]
fn draws_follow_from_the_seed() {
    let draws = |seed| {
        let faults = Faults::new(seed);
        faults.add(Rule::on("/a", lose()).probability(0.5));
        (0..64).map(|_| hit(&faults, "/a")).collect::<Vec<_>>()
    };
    assert_eq!(draws(3), draws(3));
    assert_ne!(draws(3), draws(4));
    assert!((20..44).contains(&draws(3).iter().filter(|met| **met).count()));
}

#[test]
fn several_rules_add_up() {
    let faults = Faults::new(1);
    faults.add(Rule::on(
        "/a",
        Act::Delay {
            millis: 5,
            when: When::BeforeEffect,
        },
    ));
    faults.add(Rule::on("/a", Act::Duplicate));
    faults.add(Rule::on("/a", Act::Garble));
    let plan = faults.plan(&call("/a"));
    assert_eq!(plan.names, ["delay", "duplicate", "garble"]);
    assert_eq!((plan.before.len(), plan.execution), (1, Execution::Twice));
    assert_eq!(plan.spoil, Some(Spoil::Garble));
}

#[test]
fn a_hold_is_for_one_call_by_default() {
    let faults = Faults::new(1);
    let hold = Act::Hold {
        at: When::BeforeEffect,
        gone: ClientGone::Drop,
    };
    faults.hold(Rule::on("/a", hold));
    assert!(hit(&faults, "/a"));
    assert!(!hit(&faults, "/a"));
}

#[test]
fn rules_are_written_as_json_and_read_back() {
    let table = [
        (
            json!({ "path": "/a", "act": { "act": "lose", "when": "after-effect" } }),
            "lose-after-effect",
        ),
        (
            json!({ "path": "/a", "nth": 2, "times": 1, "probability": 0.5,
            "act": { "act": "error", "status": 503, "retry-after": 2 } }),
            "error",
        ),
        (
            json!({ "path": "/a", "act": { "act": "hold", "at": "after-reply" } }),
            "hold",
        ),
        (
            json!({ "path": "/a", "act": { "act": "listing", "rows": "shrunk", "by": 3 } }),
            "listing",
        ),
        (
            json!({ "path": "/a", "act": { "act": "task", "script": "fail", "reason": "no" } }),
            "task",
        ),
        (json!({ "path": "/a", "act": { "act": "huge" } }), "huge"),
        (
            json!({ "path": "/a", "act": { "act": "business", "code": "No.Money" } }),
            "business",
        ),
    ];
    for (written, name) in table {
        let rule: Rule = serde_json::from_value(written.clone()).unwrap_or_else(|error| {
            panic!("{written}: {error}");
        });
        assert_eq!(rule.act.name(), name);
        let again: Rule = serde_json::from_value(serde_json::to_value(&rule).unwrap()).unwrap();
        assert_eq!(again, rule);
    }
}
