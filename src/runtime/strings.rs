//! Interns short strings that occur in many places: identifiers of objects and of things at the service, names of Accounts.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// Longer strings are seldom equal, and are not interned.
const LONGEST: usize = 64;

/// The string, shared with all other users of equal strings in this process unless it is long.
pub fn shared(text: &str) -> Arc<str> {
    all().share(text)
}

/// Drops strings that are not in use any more. Call it now and then: without it, only new strings make the table drop unused ones.
pub fn sweep() {
    all().sweep();
}

fn all() -> MutexGuard<'static, Strings> {
    static ALL: LazyLock<Mutex<Strings>> = LazyLock::new(Mutex::default);
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Strings(HashSet<Arc<str>>);

impl Strings {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let fresh: Arc<str> = text.into();
        if text.len() <= LONGEST {
            if self.0.len() == self.0.capacity() {
                // The table grows only if too few strings are unused.
                self.sweep();
                self.0.reserve(self.0.len() / 4);
            }
            self.0.insert(fresh.clone());
        }
        fresh
    }

    fn sweep(&mut self) {
        self.0.retain(|known| Arc::strong_count(known) > 1);
        if self.0.capacity() > 4 * self.0.len() {
            self.0.shrink_to(2 * self.0.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_are_allocated_once() {
        let mut strings = Strings::default();
        let (one, other) = (strings.share("web-1"), strings.share("web-1"));
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(strings.0.len(), 1);
    }

    #[test]
    fn unused_strings_are_dropped() {
        let mut strings = Strings::default();
        let share = |strings: &mut Strings, n| strings.share(&format!("string-{n}"));
        let kept: Vec<_> = (0..100).map(|n| share(&mut strings, n)).collect();
        for n in 100..100_000 {
            share(&mut strings, n);
        }
        // Depending on the order of the hashes, the table has room for 112 to 448 strings.
        assert!(strings.0.len() <= 5 * kept.len());
        assert!(Arc::ptr_eq(&share(&mut strings, 7), &kept[7]));
        let many: Vec<_> = (0..100_000).map(|n| share(&mut strings, n)).collect();
        drop(many);
        strings.sweep();
        assert_eq!(strings.0.len(), kept.len());
        assert!(
            strings.0.capacity() < 1_000,
            "their table entries are freed as well"
        );
        assert!(Arc::ptr_eq(&share(&mut strings, 7), &kept[7]));
    }

    #[test]
    fn a_long_string_is_not_kept() {
        let mut strings = Strings::default();
        assert_eq!(strings.share(&"x".repeat(65)).len(), 65);
        assert!(strings.0.is_empty());
    }
}
