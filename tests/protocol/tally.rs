//! The result of a run in a line: `bought 1, left 1, erased 1; web-1 Available`.
//!
//! Anything that the line does not name did not happen. If seeds differ, the line contains each result, separated by a bar.

use crate::apiserver::{Apiserver, INSTANCES};
use crate::oracle::reason;
use cloud_simulator::model::{Effect, World};
use std::collections::BTreeMap;
use std::fmt;

/// The counted events, in the order of the line. Servers that were bought, and those that exist at the end, are always listed,
/// even if there are none.
const WORDS: [&str; 7] = [
    "bought",
    "left",
    "erased",
    "restarted",
    "stopped",
    "started",
    "passwords",
];
const ALWAYS: [&str; 2] = ["bought", "left"];
/// Replaces the reason if the Instance does not exist any more.
const GONE: &str = "gone";
/// Separates alternative results.
const OR: &str = " | ";

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<&'static str, usize>,
    /// The reason of Ready at the end, of every Instance that ever existed.
    ends: BTreeMap<String, String>,
}

impl Tally {
    /// The service acted.
    pub fn happened(&mut self, effect: &Effect) {
        let word = match effect {
            Effect::Created { .. } => "bought",
            Effect::Reinstalled { .. } => "erased",
            Effect::Restarted { .. } => "restarted",
            Effect::Stopped { .. } => "stopped",
            Effect::Started { .. } => "started",
            Effect::PasswordChanged { .. } => "passwords",
            _ => return,
        };
        *self.counts.entry(word).or_default() += 1;
    }

    /// How often this event happened, by its word in the line.
    pub fn count(&self, word: &str) -> usize {
        self.counts.get(word).copied().unwrap_or(0)
    }

    /// An Instance of this name existed.
    pub fn saw(&mut self, name: &str) {
        self.ends.insert(name.to_owned(), GONE.to_owned());
    }

    /// The run is over.
    pub fn ends(&mut self, kube: &Apiserver, cloud: &World) {
        self.counts.insert("left", cloud.live_servers().len());
        for (key, object) in kube.all().filter(|(key, _)| key.0 == INSTANCES) {
            let reason = reason(object).unwrap_or("unreported").to_owned();
            self.ends.insert(key.1.clone(), reason);
        }
    }

    /// Whether this is one of the results in a line.
    pub fn is(&self, line: &str) -> bool {
        let result = self.to_string();
        line.split(OR).any(|way| way == result)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for word in WORDS {
            let count = self.count(word);
            if count > 0 || ALWAYS.contains(&word) {
                write!(f, "{between}{word} {count}")?;
                between = ", ";
            }
        }
        between = "; ";
        for (name, reason) in &self.ends {
            write!(f, "{between}{name} {reason}")?;
            between = ", ";
        }
        Ok(())
    }
}

/// The line with each result of these runs.
pub fn line(tallies: &[Tally]) -> String {
    let mut ways: Vec<String> = Vec::new();
    for way in tallies.iter().map(ToString::to_string) {
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    ways.join(OR)
}

#[test]
fn a_line_holds_the_whole_result_of_a_run() {
    let created = Effect::Created {
        server: "a".to_owned(),
        name: "name".to_owned(),
    };
    let mut once = Tally::default();
    once.happened(&created);
    once.saw("web-1");
    let mut twice = once.clone();
    twice.happened(&created);
    assert_eq!(once.to_string(), "bought 1, left 0; web-1 gone");
    let both = line(&[once.clone(), twice.clone(), once.clone()]);
    assert_eq!(
        both,
        "bought 1, left 0; web-1 gone | bought 2, left 0; web-1 gone"
    );
    assert!(once.is(&both) && twice.is(&both));
    for other in [
        "",
        "bought 1; web-1 gone",
        "bought 2, left 0; web-1 gone",
        "bought 1, left 0, erased 1; web-1 gone",
        "bought 1, left 0; web-1 Available",
        "bought 1, left 0",
    ] {
        assert!(!once.is(other), "{other}");
    }
}
