//! Counts how often each rule was judged, and how often an excuse applied to a result that would have been wrong: a judge that
//! is never called, or that always excuses, judges nothing.
//!
//! A rule counts as judged only if it could have been broken: a rule about a policy is judged only for Instances whose spec has
//! ever had that policy. An excuse counts only if it mattered: without it the rule, taken literally, was broken or could not be
//! judged.

use super::Oracle;
use std::collections::BTreeMap;

/// The result of a judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rule holds.
    Right,
    /// The rule is broken, or cannot be judged, and there is an excuse.
    Excused,
    /// The rule is broken, with a description.
    Wrong(String),
}

impl Verdict {
    /// The verdict for this violation, if there is one, and this excuse.
    pub fn of(wrong: Option<String>, is_excused: bool) -> Self {
        match wrong {
            None => Self::Right,
            Some(_) if is_excused => Self::Excused,
            Some(why) => Self::Wrong(why),
        }
    }

    /// The same verdict with an additional excuse.
    pub(super) fn or_excused(self, is_excused: bool) -> Self {
        match self {
            Self::Wrong(_) if is_excused => Self::Excused,
            other => other,
        }
    }

    /// The same verdict, with its subject in front of the description.
    pub(super) fn about(self, what: &str) -> Self {
        match self {
            Self::Wrong(why) => Self::Wrong(format!("{what}: {why}")),
            other => other,
        }
    }
}

/// How often a rule was judged, and how often excused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Judged, excused or not.
    pub judged: u64,
    /// Excused.
    pub excused: u64,
}

/// Each rule with its description, the minimum number of judgements in ten thousand random schedules, and the maximum
/// percentage of excused judgements.
///
/// The minimum is a third of the measured number, or about a tenth if that was less than a thousand: few runs reach such a
/// rule, and their number is random. The maximum is at least three times the measured percentage, and five if that was close to
/// zero. Below the minimum, the random schedules no longer exercise the rule, or its judge is not called; above the maximum, an
/// excuse has grown too broad. A rule without excuses has a maximum of zero.
macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $name:ident: $least:literal, $most:literal;)*) => {
        /// The rules.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule { $($(#[doc = $doc])+ $name,)* }

        impl Rule {
            const ALL: &[Self] = &[$(Self::$name,)*];

            fn bounds(self) -> (u64, u64) {
                match self { $(Self::$name => ($least, $most),)* }
            }
        }
    };
}

rules! {
    /// S1: at most one live server has an Instance's marker, and none is bought without a marker.
    OneServer: 3_700, 5;
    /// S1: a process makes no call after its term.
    Term: 6_800, 0;
    /// S2: when idle, every live server has its Instance.
    Owned: 3_100, 5;
    /// S3: a mutating call is based on a read of its object in the same reconcile.
    Basis: 6_800, 5;
    /// S3: the recorded server is released only with an Instance that is deleted and does not retain it.
    Released: 540, 5;
    /// S3: another server with the marker of an existing Instance is released only while a different one is recorded.
    Surplus: 1, 0;
    /// S3: servers of other owners are not released.
    Foreign: 560, 5;
    /// S3: a server that must outlive its Instance does.
    Kept: 8, 5;
    /// S3: a disk is erased only as often as users requested it.
    Erased: 610, 5;
    /// S3: a server is restarted only as often as users requested it.
    Restarted: 46, 10;
    /// S4: a server that was released at the console is replaced only if the spec requires it, and at most that often.
    BoughtAgain: 43, 5;
    /// S4: a record does not forget its server.
    Forgotten: 20, 0;
    /// S4: a server that is reported as missing does not exist.
    Missing: 400, 15;
    /// S5: the finalizer is removed once nothing is left at the service.
    Finalizer: 570, 5;
    /// S6: `observedGeneration` is never ahead, and does not go back.
    Generation: 16_600, 5;
    /// S6: the server of a Ready Instance exists.
    ReadyThere: 5_200, 5;
    /// S6: the server of a Ready Instance is idle.
    ReadyIdle: 5_200, 5;
    /// S6: a write of status keeps the conditions of other controllers.
    OthersConditions: 15_000, 0;
    /// S6: status does not show Ready together with a running operation.
    ReadyAlone: 5_300, 0;
    /// S6: Ready matches the state that the service last showed.
    Shown: 5_300, 5;
    /// S6: Ready is true only while no operation of the operator is open.
    Closed: 8_300, 5;
    /// S6: a reported outcome matches the service's answer.
    Claimed: 59, 10;
    /// S6: the history matches the results of the tasks.
    History: 5_500, 5;
    /// S6: an edit is acknowledged before a call.
    Acknowledged: 3_000, 5;
    /// S8: attempt numbers increase.
    Numbers: 2_200, 5;
    /// S8: a request matches the one that an intent announced.
    Announced: 4_300, 5;
    /// L1: once faults stop, an Instance reaches the state of its spec, or shows why not.
    Settled: 3_600, 8;
    /// L1: afterwards nothing is written or called.
    Still: 3_300, 5;
    /// L1: the operator never assumes without cause that the cluster was restored, since all settling would begin again.
    Believed: 4_000, 20;
    /// L2: work that waits for a dependency uses it within half a minute after its return.
    Recovered: 49, 5;
    /// L3: calls for one object in a minute.
    Calls: 24_700, 30;
    /// L3: polls of a server's running operation in a minute.
    Polls: 16_600, 5;
    /// L3: writes to one object in a minute.
    Writes: 32_600, 35;
    /// L3: no status write repeats known content.
    Silence: 12_900, 5;
    /// L3: no run makes requests without end.
    Ends: 3_300, 0;
    /// No intent is written for an Instance that is paused or observed only.
    RestrainedIntent: 38, 0;
    /// The service accepts no operation for such an Instance.
    RestrainedCall: 23, 5;
    /// No purchase beyond the Account's limit is announced.
    Limit: 43, 5;
    /// No server is bought for an Instance with an import.
    ImportBuys: 370, 5;
    /// No server is imported if the Account has never allowed imports.
    ImportAllowed: 16, 0;
    /// A server is imported by only one Instance.
    ImportedOnce: 360, 5;
    /// Power is cut only if `stopPolicy` allows it, and not before its time.
    PowerCut: 2, 5;
    /// A login Secret is created once, and again after it was deleted.
    SecretMade: 860, 5;
    /// It is created with a password, which counts as in effect only once the server has it.
    SecretWhole: 1_700, 5;
    /// The server has the password that the login Secret shows as in effect.
    InForce: 840, 5;
    /// A pending password is not replaced or dropped, and is generated when it is due.
    Waiting: 690, 5;
    /// A server's password is in its Secret, at every moment.
    Known: 37_000, 10;
    /// The connection Secret contains the server's password.
    Connection: 1_000, 5;
    /// When idle, the server has the password of the Secret that users created.
    GivenAtRest: 1_500, 5;
    /// When idle, login and connection Secret match the server.
    SecretsWhenIdle: 1_300, 8;
}

/// The number of schedules that the bounds refer to.
const SCHEDULES: u64 = 10_000;
/// Below this number of judgements no percentage is checked, since a single run may excuse that many.
const FEW: u64 = 100;

impl Oracle {
    /// Records the verdict of a judge on this rule.
    pub fn judge(&mut self, rule: Rule, verdict: Verdict) {
        let count = self.counts.entry(rule).or_default();
        count.judged += 1;
        match verdict {
            Verdict::Right => {}
            Verdict::Excused => count.excused += 1,
            Verdict::Wrong(why) => self.violations.push(why),
        }
    }

    /// How often each rule was judged, and how often excused.
    pub fn counted(&self) -> BTreeMap<Rule, Count> {
        self.counts.clone()
    }
}

/// One line for each rule, for people.
pub fn table(counts: &BTreeMap<Rule, Count>) -> Vec<String> {
    let line = |rule: &Rule| {
        let Count { judged, excused } = counts.get(rule).copied().unwrap_or_default();
        let share = 100.0 * excused as f64 / judged.max(1) as f64;
        let name = format!("{rule:?}");
        format!("{name:16} judged {judged:9} excused {excused:8} {share:5.1} %")
    };
    Rule::ALL.iter().map(line).collect()
}

/// The rules that this many random schedules judged too seldom, or excused too often.
pub fn idle(counts: &BTreeMap<Rule, Count>, schedules: u64) -> Vec<String> {
    let mut idle = Vec::new();
    for rule in Rule::ALL {
        let Count { judged, excused } = counts.get(rule).copied().unwrap_or_default();
        let (least, most) = rule.bounds();
        let least = least * schedules / SCHEDULES;
        if judged < least {
            idle.push(format!(
                "{rule:?} was judged {judged} times in {schedules} schedules, at least {least} are to be"
            ));
        }
        if excused * 100 > most * judged.max(FEW) {
            idle.push(format!(
                "{rule:?} was excused {excused} of {judged} times, at most {most} in a hundred may be"
            ));
        }
    }
    idle
}

#[test]
fn a_rule_that_judges_nothing_is_reported() {
    let never = idle(&BTreeMap::new(), SCHEDULES);
    assert_eq!(never.len(), Rule::ALL.len(), "{never:#?}");
    let judged = u64::MAX / 200;
    let always = Count {
        judged,
        excused: judged,
    };
    let always = Rule::ALL.iter().map(|rule| (*rule, always)).collect();
    assert_eq!(idle(&always, SCHEDULES).len(), Rule::ALL.len());
    let well = Count { judged, excused: 0 };
    let well = Rule::ALL.iter().map(|rule| (*rule, well)).collect();
    assert_eq!(idle(&well, SCHEDULES), [""; 0]);
}
