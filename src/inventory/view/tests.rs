use std::time::Duration;

use serde_json::json;

use super::super::testing;
use super::*;

fn pass(began: Instant, servers: &[(&str, &str)], row_count: Option<u64>) -> Arc<Pass> {
    let row = |(id, name): &(&str, &str)| {
        let row = json!({"ecsResourceUUID": id, "instanceName": name});
        row.as_object().cloned().unwrap()
    };
    testing::pass(began, servers.iter().map(row).collect(), row_count)
}

fn view(previous: Option<Arc<Pass>>, newest: Arc<Pass>) -> View {
    testing::view(previous, Some(newest))
}

#[tokio::test(start_paused = true)]
async fn one_pass_shows_absence_and_two_prove_it() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let marker = Marker::of_uid("mine");
    let mine = format!("web-{marker}");
    let others: &[(&str, &str)] = &[("ecs-1", "other")];
    let with_mine: &[(&str, &str)] = &[("ecs-1", "other"), ("ecs-9", &mine)];
    let (old, new) = (pass(at(10), others, Some(1)), pass(at(20), others, Some(1)));

    let proof = |view: &View, since| view.proven_absent(&marker, None, at(since));
    let both = view(Some(old.clone()), new.clone());
    assert_eq!(proof(&both, 9), Ok(()));
    assert_eq!(proof(&both, 10), Err(NoEvidence::Stale), "strictly after");
    assert_eq!(
        both.sighting(&"ecs-9".into()),
        Sighting::Absent { began: at(20) }
    );
    assert!(both.began_after(at(19)) && !both.began_after(at(20)));

    assert_eq!(proof(&View::default(), 0), Err(NoEvidence::NoPass));
    assert_eq!(proof(&view(None, new.clone()), 0), Err(NoEvidence::Stale));

    let found = view(Some(old.clone()), pass(at(20), with_mine, Some(2)));
    assert_eq!(
        proof(&found, 30),
        Err(NoEvidence::Listed),
        "a row is never stale"
    );
    let gone = view(Some(pass(at(10), with_mine, Some(2))), new.clone());
    assert_eq!(proof(&gone, 0), Err(NoEvidence::Changed));

    let doubtful = view(Some(pass(at(10), others, Some(2))), new);
    assert!(matches!(proof(&doubtful, 0), Err(NoEvidence::Unsteady)));
    let doubtful = view(Some(old), pass(at(20), others, Some(2)));
    assert!(matches!(proof(&doubtful, 0), Err(NoEvidence::Unsteady)));
    assert!(matches!(
        doubtful.sighting(&"ecs-9".into()),
        Sighting::Unknown(NoEvidence::Unsteady)
    ));
    assert!(
        matches!(doubtful.sighting(&"ecs-1".into()), Sighting::Present(_, seen) if seen == at(21))
    );

    let breaker_open = View {
        breaker_open: true,
        ..both
    };
    assert_eq!(proof(&breaker_open, 0), Err(NoEvidence::BreakerOpen));
    assert_eq!(
        breaker_open.sighting(&"ecs-9".into()),
        Sighting::Unknown(NoEvidence::BreakerOpen)
    );
}

#[tokio::test(start_paused = true)]
async fn a_recorded_id_is_found_regardless_of_its_name() {
    let now = Instant::now();
    let renamed = pass(
        now,
        &[("ecs-1", "renamed"), ("ecs-2", "twin"), ("ecs-3", "twin")],
        None,
    );
    let view = view(Some(renamed.clone()), renamed);
    let marker = Marker::of_uid("mine");
    let absence = view.proven_absent(&marker, Some(&"ecs-1".into()), now);
    assert_eq!(absence, Err(NoEvidence::Listed));
    assert!(view.bearing(&marker).is_empty());
    let newest = view.newest.as_ref().unwrap();
    let rows = newest.rows.values();
    let twins = rows.filter(|row| row.name.as_deref() == Some("twin"));
    assert_eq!(twins.count(), 2);
    // Two passes without a server prove that it is gone, regardless of other servers.
    let gone = |id: &str, since| view.proven_gone(&id.into(), since);
    let before = now.checked_sub(Duration::from_secs(1)).unwrap();
    assert_eq!(gone("ecs-9", before), Ok(()));
    assert_eq!(gone("ecs-9", now), Err(NoEvidence::Stale));
    let listed = Err(NoEvidence::Listed);
    assert_eq!(gone("ecs-1", now), listed);
    assert!(view.shows_in_both(&"ecs-2".into()) && !view.shows_in_both(&"ecs-4".into()));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_zone_proves_absence_unless_a_server_is_recorded_there() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let marker = Marker::of_uid("mine");
    let nowhere = View {
        nowhere: [Some(at(10)), Some(at(20))],
        ..View::default()
    };
    let proof = |view: &View, since| view.proven_absent(&marker, None, at(since));
    assert_eq!(proof(&nowhere, 9), Ok(()));
    assert_eq!(
        proof(&nowhere, 10),
        Err(NoEvidence::NoPass),
        "only one answer since then"
    );
    let recorded = nowhere.proven_absent(&marker, Some(&"ecs-1".into()), at(9));
    assert_eq!(recorded, Err(NoEvidence::NoPass));
    let known = View {
        nowhere: nowhere.nowhere,
        ..view(None, pass(at(5), &[], Some(0)))
    };
    assert_eq!(proof(&known, 9), Err(NoEvidence::Stale));
}
