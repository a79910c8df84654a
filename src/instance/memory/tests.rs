use super::*;
use crate::instance::memory::ReleaseCall;

fn memory(post: Post) -> Memory {
    let now = Instant::now();
    let mut memory = Memory::new(true, now);
    let attempt = Attempt {
        doubt: None,
        nonce: "nonce".into(),
        account: "default".into(),
        verb: Verb::Create,
        is_own: true,
        is_newest: true,
        tries: 1,
        since: now,
        post,
    };
    memory.attempts.insert(1, attempt);
    memory
}

fn left(id: Option<&str>, is_leaving: bool) -> Option<Remains> {
    Some(Remains {
        id: id.map(ServerId::from),
        account: "default".into(),
        is_leaving,
    })
}

#[tokio::test]
async fn what_goes_leaves_its_server_behind_until_that_is_known_to_be_gone() {
    assert_eq!(Memory::new(true, Instant::now()).remains(), None);
    assert_eq!(memory(Post::NotSent).remains(), None);
    assert_eq!(memory(Post::Unknown).remains(), left(None, false));
    let id = ServerId::from("ecs-1");
    let mut memory = memory(Post::Accepted {
        id: id.clone(),
        task: None,
    });
    assert_eq!(memory.remains(), left(Some("ecs-1"), false));
    let call = ReleaseCall {
        at: Instant::now(),
        task: None,
        accepted: true,
        trouble: None,
        is_unknown: false,
        not_before: None,
    };
    memory.releases.insert(id.clone(), call);
    assert_eq!(memory.remains(), left(Some("ecs-1"), true));
    memory.is_gone(id, Gone::Released);
    assert_eq!(memory.remains(), None);
}

#[test]
fn what_is_found_gone_again_begins_no_pace_anew() {
    let mut memory = Memory::new(true, Instant::now());
    let id = ServerId::from("ecs-1");
    memory.backoff.fail();
    memory.is_gone(id.clone(), Gone::NotFound);
    assert_eq!(memory.backoff, Backoff::default());
    memory.backoff.fail();
    memory.is_gone(id, Gone::NotFound);
    assert_ne!(memory.backoff, Backoff::default());
}
