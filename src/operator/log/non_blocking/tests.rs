use super::*;
use std::sync::Mutex;
use std::time::Instant;

/// A file that a test reads: writes wait until they are let, and fail where that is asked for.
#[derive(Clone, Default)]
struct Reader {
    seen: Arc<Mutex<Vec<u8>>>,
    /// Held by the test for as long as the reader stands.
    stands: Arc<Mutex<()>>,
    fails: Arc<AtomicBool>,
}

impl Write for Reader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drop(self.stands.lock().unwrap());
        if self.fails.load(Ordering::Acquire) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.seen.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Reader {
    fn seen(&self) -> String {
        String::from_utf8(self.seen.lock().unwrap().clone()).unwrap()
    }
}

#[test]
fn the_end_waits_for_what_was_written_in_order() {
    let reader = Reader::default();
    let (mut lines, guard) = non_blocking(reader.clone()).unwrap();
    let expected: String = (0..1000).map(|number| format!("{number}\n")).collect();
    for line in expected.split_inclusive('\n') {
        lines.write_all(line.as_bytes()).unwrap();
    }
    drop(guard);
    assert_eq!(reader.seen(), expected);
    assert_eq!(lines.dropped(), 0);
}

#[test]
fn a_reader_that_stands_makes_nobody_wait_and_costs_bounded_memory() {
    let reader = Reader::default();
    let stands = reader.stands.clone();
    let held = stands.lock().unwrap();
    let (mut lines, guard) = non_blocking(reader.clone()).unwrap();
    let line = [b'x'; 1000];
    let fit = WAITING / (line.len() + EACH);
    for _ in 0..2 * fit {
        lines.write_all(&line).unwrap();
    }
    // The one that the thread holds counts as well.
    assert_eq!(lines.dropped(), 2 * fit as u64 - fit as u64);
    assert!(lines.shared.waiting.load(Ordering::Acquire) <= WAITING);
    // Empty ones have their cost too.
    for _ in 0..2 * WAITING / EACH {
        lines.write_all(b"").unwrap();
    }
    assert!(lines.shared.waiting.load(Ordering::Acquire) <= WAITING);

    drop(held);
    drop(guard);
    assert_eq!(reader.seen().len(), fit * line.len());
    assert_eq!(lines.shared.waiting.load(Ordering::Acquire), 0);
}

#[test]
fn the_end_leaves_a_reader_that_stands() {
    let reader = Reader::default();
    let stands = reader.stands.clone();
    let held = stands.lock().unwrap();
    let (mut lines, guard) = non_blocking(reader.clone()).unwrap();
    lines.write_all(b"last words\n").unwrap();
    let begun = Instant::now();
    drop(guard);
    assert!(begun.elapsed() >= LAST_WORDS, "nobody waited");
    assert_eq!(reader.seen(), "");
    drop(held);
}

#[test]
fn a_line_that_cannot_be_written_does_not_stop_the_next() {
    let reader = Reader::default();
    reader.fails.store(true, Ordering::Release);
    let (mut lines, guard) = non_blocking(reader.clone()).unwrap();
    lines.write_all(b"lost\n").unwrap();
    while lines.shared.waiting.load(Ordering::Acquire) > 0 {
        std::thread::yield_now();
    }
    reader.fails.store(false, Ordering::Release);
    lines.write_all(b"seen\n").unwrap();
    drop(guard);
    assert_eq!(reader.seen(), "seen\n");
}
