//! A log that nobody reads any more, and one whose reader is gone: neither stops the work.

use crate::support::{Setup, instance, names, other_image, quiet_all, side_by_side};

/// What becomes of the reader once the operator has said where it listens.
#[derive(Clone, Copy, Debug)]
enum Reader {
    /// It is there and reads nothing: the pipe fills up.
    Stands,
    /// It is gone: every write fails.
    Gone,
}

impl Reader {
    /// A shell that pipes its standard error to the reader, which passes on where the operator listens, and becomes the
    /// operator. The reader that stands ends with it.
    fn around(self) -> String {
        let then = match self {
            Self::Stands => "exec tail --pid=$$ -f /dev/null",
            Self::Gone => "true",
        };
        format!("exec \"$0\" \"$@\" 2> >(grep -m1 '\"address\"' >&2; {then})")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_reads_stops_no_work() {
    side_by_side(2, [Reader::Stands, Reader::Gone], |reader| async move {
        let script = reader.around();
        let line = ["bash", "-c", &script];
        // Hundreds of lines a second: a pipe holds 64 KiB.
        let setup = Setup::default().filter("trace").around(&line);
        let world = setup.begin("log").await;
        let fleet = names("web", 8);
        world.apply_all(&fleet, instance).await;
        world.all_ready(&fleet).await;
        world.apply_all(&fleet, other_image).await;
        for name in &fleet {
            world
                .until(name, "is reinstalled", |i| {
                    crate::support::is_ready(i) && i.status.as_ref().unwrap().history.len() == 2
                })
                .await;
        }
        let lines = world.logs().lines().count();
        assert_eq!(lines, 1, "somebody reads: the test tests nothing");
        quiet_all(&world).await;
        world.finish().await;
    })
    .await;
}
