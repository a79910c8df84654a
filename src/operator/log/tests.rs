use super::{LONGEST_LINE, cut, describe};
use std::cell::RefCell;
use std::sync::Once;

mod quotes;

const CANARY: &str = "canary-päss-5f0e8c2b";

thread_local! {
    /// The lines that the hook would log about panics of this thread.
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Something that panics.
type Panics = Box<dyn FnOnce() + std::panic::UnwindSafe>;

/// The lines that are logged when `panics` panics. The process has one hook; it leaves panics of other threads to the former hook.
fn logged(panics: impl FnOnce() + std::panic::UnwindSafe) -> String {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_ours = LINES.with_borrow_mut(|lines| {
                let lines = lines.as_mut()?;
                lines.push(format!(
                    "{} {}",
                    describe(panic),
                    std::backtrace::Backtrace::force_capture()
                ));
                Some(())
            });
            if is_ours.is_none() {
                former(panic);
            }
        }));
    });
    LINES.set(Some(Vec::new()));
    let ended = std::panic::catch_unwind(panics);
    let lines = LINES.take().unwrap();
    assert!(ended.is_err(), "it did not panic");
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.concat()
}

/// S7: a panic shows no value that the reconcile holds.
#[test]
fn a_panic_is_logged_with_its_position_and_no_value() {
    let secret = CANARY.to_owned();
    let cases: [(&str, Panics); 5] = [
        ("put together", {
            let secret = secret.clone();
            Box::new(move || panic!("the password {secret} is odd"))
        }),
        ("an error that quotes", {
            let text = serde_json::to_string(&secret).unwrap();
            Box::new(move || assert_eq!(serde_json::from_str::<u32>(&text).unwrap(), 0))
        }),
        ("a text cut in a character", {
            let secret = secret.clone();
            let middle = secret.find('ä').unwrap() + 1;
            Box::new(move || drop(secret[..middle].to_owned()))
        }),
        ("values that differ", {
            let secret = secret.clone();
            Box::new(move || assert_eq!(secret, "another"))
        }),
        (
            "a payload of its own",
            Box::new(move || std::panic::panic_any(secret)),
        ),
    ];
    for (what, panics) in cases {
        let line = logged(panics);
        for part in [CANARY, "canary", "5f0e8c2b"] {
            assert!(!line.contains(part), "{what}: {line}");
        }
        assert!(line.contains("panicked at "), "{what}: {line}");
        assert!(line.contains(".rs:"), "{what}: {line}");
    }
}

#[test]
fn a_panic_with_a_constant_message_keeps_it() {
    let line = logged(|| panic!("the queue has no end"));
    assert!(line.contains("the queue has no end"), "{line}");
    assert!(line.contains("src/operator/log/tests.rs:"), "{line}");
}

#[test]
fn a_long_line_is_cut_between_characters() {
    for length in LONGEST_LINE - 8..LONGEST_LINE + 8 {
        let line = format!("{}{}\n", "a".repeat(length % 2), "ä".repeat(length / 2));
        let queued = cut(line.as_bytes());
        let text = std::str::from_utf8(&queued).unwrap();
        assert!(
            text.len() <= LONGEST_LINE && text.ends_with('\n'),
            "{length}"
        );
        match text.strip_suffix("…\n") {
            Some(beginning) => {
                assert!(
                    line.len() > LONGEST_LINE && line.starts_with(beginning),
                    "{length}"
                );
                assert!(beginning.len() > LONGEST_LINE - 8, "{length}");
            }
            None => assert_eq!(text, line),
        }
    }
}

#[test]
fn a_long_line_of_json_stays_one() {
    let long = "ä\"".repeat(LONGEST_LINE);
    let line = serde_json::json!({"level": "WARN", "error": long, "seconds": 7}).to_string() + "\n";
    let queued = cut(line.as_bytes());
    assert!(queued.len() <= 2 * LONGEST_LINE && queued.ends_with(b"}\n"));
    let fields: serde_json::Value = serde_json::from_slice(&queued).unwrap();
    assert_eq!(
        (&fields["level"], &fields["seconds"]),
        (&"WARN".into(), &7.into())
    );
    assert!(fields["error"].as_str().unwrap().ends_with('…'));
}
