use super::*;
use cloud_server_operator::cloud::ServerId;
use cloud_server_operator::instance::plan::preview::{Preview, Unknown};
use cloud_server_operator::runtime::watch::ObjectKey;
use serde_json::json;

fn nobody() -> ObjectKey {
    ObjectKey::new("", "")
}

fn acts(planned_changes: &[PlannedChange]) -> Preview {
    let act = |planned: &PlannedChange| Act {
        planned: planned.clone(),
        why: "a → b".to_owned(),
    };
    Preview {
        acts: planned_changes.iter().map(act).collect(),
        ..Preview::default()
    }
}

fn told(preview: Preview, restrained: Option<Readiness>, is_changed: bool) -> (Effect, u8) {
    let change = Change {
        field: "spec.x".to_owned(),
        from: json!(1),
        to: json!(2),
    };
    let changes: Vec<Change> = is_changed.then_some(change).into_iter().collect();
    let foresight = Foresight {
        preview,
        restrained,
        account: nobody(),
        place: None,
    };
    let (all, _) = effects(&foresight, &changes);
    (weightiest(&all), status(all.iter().map(|said| said.effect)))
}

fn of(verb: Verb) -> PlannedChange {
    PlannedChange::Operation(verb)
}

fn paused() -> Option<Readiness> {
    Some(Readiness::reconciling(Reason::Paused, "paused"))
}

fn held(preview: Preview) -> Preview {
    Preview {
        held: Some(Readiness::stalled(
            Reason::ReinstallNeedsApproval,
            "pending",
        )),
        ..preview
    }
}

fn blind(preview: Preview) -> Preview {
    Preview {
        unknown: Some(Unknown {
            why: "away".to_owned(),
            reason: Some(Reason::ServerReadFailed),
        }),
        ..preview
    }
}

/// What would be done, what restrains it, whether the object changes; verdict and exit status.
type Row = (Preview, Option<Readiness>, bool, (Effect, u8));

fn nothing_in_the_way() -> Vec<Row> {
    vec![
        (acts(&[]), None, false, (Effect::Nothing, 0)),
        (acts(&[]), None, true, (Effect::InPlace, 2)),
        (acts(&[]), paused(), false, (Effect::Nothing, 0)),
        (
            acts(&[of(Verb::ModifyPassword)]),
            None,
            false,
            (Effect::InPlace, 2),
        ),
        (acts(&[of(Verb::Start)]), None, true, (Effect::InPlace, 2)),
        (
            acts(&[PlannedChange::Secret]),
            None,
            false,
            (Effect::InPlace, 2),
        ),
        (
            acts(&[PlannedChange::TakeOver(ServerId::from("e"))]),
            None,
            true,
            (Effect::TakesOver, 2),
        ),
        (
            acts(&[of(Verb::Restart), of(Verb::ModifyPassword)]),
            None,
            true,
            (Effect::Restart, 2),
        ),
        (
            acts(&[of(Verb::Create)]),
            None,
            true,
            (Effect::NewServer, 3),
        ),
        (
            acts(&[of(Verb::Reinstall)]),
            None,
            true,
            (Effect::ErasesDisk, 3),
        ),
    ]
}

fn held_back_or_unknown() -> Vec<Row> {
    vec![
        (
            acts(&[of(Verb::Reinstall)]),
            paused(),
            true,
            (Effect::Waits, 4),
        ),
        (held(acts(&[])), None, true, (Effect::Waits, 4)),
        // Both are reported; the pipeline stops.
        (
            held(acts(&[of(Verb::Start)])),
            None,
            true,
            (Effect::Waits, 4),
        ),
        (
            held(acts(&[of(Verb::Reinstall)])),
            None,
            true,
            (Effect::ErasesDisk, 4),
        ),
        (
            blind(acts(&[of(Verb::Reinstall)])),
            None,
            true,
            (Effect::Unknown, 1),
        ),
    ]
}

#[test]
fn each_preview_has_its_verdict_and_exit_status() {
    let rows = [nothing_in_the_way(), held_back_or_unknown()].concat();
    for (preview, restrained, is_changed, wanted) in rows {
        let words = format!("{preview:?}, {restrained:?}, {is_changed}");
        assert_eq!(told(preview, restrained, is_changed), wanted, "{words}");
    }
}

#[test]
fn the_exit_status_of_several_is_the_highest_but_for_what_is_not_known() {
    use Effect::{ErasesDisk, InPlace, Nothing, Refused, Unknown};
    assert_eq!(status([]), 0);
    assert_eq!(status([Nothing, InPlace]), 2);
    assert_eq!(status([ErasesDisk, InPlace]), 3);
    assert_eq!(status([ErasesDisk, Refused]), 4);
    assert_eq!(status([Unknown, Refused, ErasesDisk]), 1);
}

#[test]
fn what_a_pause_holds_back_is_still_told() {
    let foresight = Foresight {
        preview: acts(&[PlannedChange::Operation(Verb::Reinstall)]),
        restrained: Some(Readiness::reconciling(Reason::Paused, "paused")),
        account: nobody(),
        place: None,
    };
    let (all, notes) = effects(&foresight, &[]);
    assert_eq!(all[0].reason, Some("Paused"));
    assert!(
        notes[0].contains("reinstall") && notes[0].contains("ERASES"),
        "{notes:?}"
    );
}
