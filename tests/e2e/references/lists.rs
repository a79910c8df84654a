//! The cost of the lists in which selectors are resolved.

use super::{DEBIAN, IMAGES, UBUNTU, another_called, by_name, list_reads, named_image};
use crate::support::{Setup, assert_idle, names, with};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a cached list is used, including a margin, if all selectors were found in it.
const LIFETIME: Duration = Duration::from_secs(280);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_used_for_its_lifetime_and_read_again_for_an_entry_that_it_lacks() {
    let world = Setup::default().begin("list-lifetime").await;
    world.apply(&by_name("api-1")).await;
    let first = Instant::now();
    world.ready("api-1").await;
    // The same selectors again: no list is read for them.
    let since = world.sim.ledger().last_seq();
    world.apply(&by_name("api-2")).await;
    world.ready("api-2").await;
    let read = list_reads(&world, since);
    // On a machine that stalled for minutes, the cached lists would have expired.
    if first.elapsed() < LIFETIME {
        assert_eq!(read, BTreeMap::new(), "{}", world.ledger_text());
    }
    // Nor for other entries of the same lists.
    let since = world.sim.ledger().last_seq();
    let other = with("api-3", |spec| {
        spec["image"] = json!({"name": DEBIAN, "type": "System"});
        spec["firewall"] = json!({"name": "mail-1"});
        spec["package"] = json!({"cpu": 2});
    });
    world.apply(&other).await;
    world.ready("api-3").await;
    let read = list_reads(&world, since);
    if first.elapsed() < LIFETIME {
        assert_eq!(read, BTreeMap::new(), "{}", world.ledger_text());
    }
    // An entry that was added since is in no cached list: its list is read again, and no other.
    let since = world.sim.ledger().last_seq();
    let new = "Made Just Now";
    another_called(&world, UBUNTU, "img-just-made", new);
    world.apply(&named_image("api-4", new)).await;
    let ready = world.ready("api-4").await;
    assert_eq!(assert_idle(&world, &ready).image, "img-just-made");
    let read = list_reads(&world, since);
    let pages = read.get(IMAGES).copied().unwrap_or_default();
    assert!(pages > 0 && read.len() == 1, "{read:?}");
    // The list that was read again serves the next Instance.
    let since = world.sim.ledger().last_seq();
    let second = Instant::now();
    world.apply(&named_image("api-5", new)).await;
    world.ready("api-5").await;
    let read = list_reads(&world, since);
    if second.elapsed() < LIFETIME / 2 {
        assert_eq!(read, BTreeMap::new(), "{}", world.ledger_text());
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_instances_share_one_reading_of_each_list() {
    let world = Setup::default().begin("shared").await;
    let names = names("api", 20);
    world.apply_all(&names, by_name).await;
    world.all_ready(&names).await;
    let list_reads = list_reads(&world, 0);
    // A list of several pages ends with an empty page.
    for (list, most) in [
        ("/region/list", 1),
        ("/package/list", 1),
        ("/image/list", 3),
        ("/firewall/list", 3),
        ("/sshkey/list", 3),
    ] {
        let found = list_reads.get(list).copied().unwrap_or_default();
        assert!((1..=most).contains(&found), "{list}: {list_reads:?}");
    }
    world.finish().await;
}
