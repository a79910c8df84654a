//! How often each rule was judged, and how often something excused what it would have called wrong: a judge that is never
//! asked, or that always excuses, judges nothing.
//!
//! Judged is whatever could have broken the rule: a rule about a policy is judged only of Instances whose spec has ever said
//! so. An excuse counts only where it mattered: without it the rule, taken by its words, was broken, or could not be judged.

use super::Oracle;
use std::collections::BTreeMap;

/// What a judge finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it is to be.
    Right,
    /// It is not, or nobody can say, and there is an excuse.
    Excused,
    /// It is not, in words.
    Wrong(String),
}

impl Verdict {
    /// What is wrong, if anything is, and whether there is an excuse for it.
    pub fn of(wrong: Option<String>, is_excused: bool) -> Self {
        match wrong {
            None => Self::Right,
            Some(_) if is_excused => Self::Excused,
            Some(why) => Self::Wrong(why),
        }
    }

    /// The same, with one more excuse.
    pub(super) fn or_excused(self, is_excused: bool) -> Self {
        match self {
            Self::Wrong(_) if is_excused => Self::Excused,
            other => other,
        }
    }

    /// The same, with what it is about before its words.
    pub(super) fn about(self, what: &str) -> Self {
        match self {
            Self::Wrong(why) => Self::Wrong(format!("{what}: {why}")),
            other => other,
        }
    }
}

/// How often a rule was asked, and how often it could not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Judged, excused or not.
    pub judged: u64,
    /// Excused.
    pub excused: u64,
}

/// Each rule: what it says, how often ten thousand schedules by chance judge it at the least, and of how many in a hundred
/// judgements an excuse is taken at the most.
///
/// The least is a third of what was measured, and about a tenth where that was less than a thousand: few runs come to it, and how
/// many, chance decides. The most is at least three times what was measured, and five where that was next to nothing. Below the
/// one, chance does not play any more what the rule is about, or its judge is not asked; above the other, an excuse has grown. A
/// rule that knows no excuse has none.
macro_rules! rules {
    ($($(#[doc = $says:literal])+ $name:ident: $least:literal, $most:literal;)*) => {
        /// The rules, as they are counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule { $($(#[doc = $says])+ $name,)* }

        impl Rule {
            const ALL: &[Self] = &[$(Self::$name,)*];

            fn bounds(self) -> (u64, u64) {
                match self { $(Self::$name => ($least, $most),)* }
            }
        }
    };
}

rules! {
    /// S1: at most one live server bears an Instance's marker, and none is bought without one.
    OneServer: 3_700, 5;
    /// S1: nothing is called when the term of the process is over.
    Term: 6_800, 0;
    /// S2: at rest, every live server has its Instance.
    Owned: 3_100, 5;
    /// S3: what changes something stands on a look at its object in the same turn.
    Look: 6_800, 5;
    /// S3: the recorded server is released only with an Instance that goes and does not keep it.
    Released: 540, 5;
    /// S3: beside it, what bears the marker of an Instance that stays is released only while another one is recorded.
    Surplus: 1, 0;
    /// S3: nobody else's server is released.
    Foreign: 560, 5;
    /// S3: a server that is to outlive its Instance does.
    Kept: 8, 5;
    /// S3: a disk is erased as often as users asked for it.
    Erased: 610, 5;
    /// S3: a server is restarted as often as users asked for it.
    Restarted: 46, 10;
    /// S4: what somebody released at the console is bought again only where the spec wants it, and as often.
    BoughtAgain: 43, 5;
    /// S4: a record does not forget its server.
    Forgotten: 20, 0;
    /// S4: what is told as missing is not there.
    Missing: 400, 15;
    /// S5: the finalizer leaves when nothing is left at the service.
    Finalizer: 570, 5;
    /// S6: `observedGeneration` is none that is to come, and does not go back.
    Generation: 16_600, 5;
    /// S6: the server of a Ready Instance is there.
    ReadyThere: 5_200, 5;
    /// S6: and it is not at work.
    ReadyIdle: 5_200, 5;
    /// S6: a write of status leaves the conditions of other controllers as they are.
    OthersConditions: 15_000, 0;
    /// S6: Ready and an operation that runs are not told at once.
    ReadyAlone: 5_300, 0;
    /// S6: Ready is what the service last showed.
    Shown: 5_300, 5;
    /// S6: Ready stands while no operation is open that the operator began.
    Closed: 8_300, 5;
    /// S6: what is told of an outcome is what was answered.
    Claimed: 59, 10;
    /// S6: what is in the history is what became of the task.
    History: 5_500, 5;
    /// S6: an edit is acknowledged before a call.
    Acknowledged: 3_000, 5;
    /// S8: attempt numbers increase.
    Numbers: 2_200, 5;
    /// S8: what is asked for is what an intent announced.
    Announced: 4_300, 5;
    /// L1: once faults stop, an Instance comes to what its spec wants, or to the reason why not.
    Settled: 3_600, 8;
    /// L1: then nothing is written or called.
    Still: 3_300, 5;
    /// L1: the state of the cluster is not taken for one that went back in time: all settling begins anew with that.
    Believed: 4_000, 20;
    /// L2: whoever waits for a dependency asks it within half a minute after it is back.
    Recovered: 49, 5;
    /// L3: calls for one object in a minute.
    Calls: 24_700, 30;
    /// L3: questions for what runs at one server in a minute.
    Looks: 16_600, 5;
    /// L3: writes to one object in a minute.
    Writes: 32_600, 35;
    /// L3: no status is written that says nothing new.
    Silence: 12_900, 5;
    /// L3: no run asks without end.
    Ends: 3_300, 0;
    /// Nothing is announced for an Instance that is paused or only looked at.
    RestrainedIntent: 38, 0;
    /// The service takes nothing for one.
    RestrainedCall: 23, 5;
    /// No purchase is announced beyond the Account's limit.
    Limit: 43, 5;
    /// Nothing is bought for an Instance that imports.
    ImportBuys: 370, 5;
    /// Nothing is imported that the Account has never allowed.
    ImportAllowed: 16, 0;
    /// A server is imported by one Instance.
    ImportedOnce: 360, 5;
    /// Power is cut where `stopPolicy` allows it, and not before its time.
    PowerCut: 2, 5;
    /// A login Secret is made once, and again when somebody deleted it.
    SecretMade: 860, 5;
    /// It is made with a password, which counts as in force only where the server has it.
    SecretWhole: 1_700, 5;
    /// What a login Secret says is in force, the server has.
    InForce: 840, 5;
    /// A password that waits in it gives way to none, is not dropped, and is made when it is due.
    Waiting: 690, 5;
    /// The password of a server stands in its Secret, at every moment.
    Known: 37_000, 10;
    /// The connection Secret tells the password that the server has.
    Connection: 1_000, 5;
    /// At rest, the server has the password of the Secret that users made.
    GivenAtRest: 1_500, 5;
    /// At rest, login and connection Secret say what the server has.
    SecretsAtRest: 1_300, 8;
}

/// What the bounds are for.
const SCHEDULES: u64 = 10_000;
/// Of so few judgements nobody takes a share: one run alone may excuse as many.
const FEW: u64 = 100;

impl Oracle {
    /// A judge has decided by this rule.
    pub fn judge(&mut self, rule: Rule, verdict: Verdict) {
        let count = self.counts.entry(rule).or_default();
        count.judged += 1;
        match verdict {
            Verdict::Right => {}
            Verdict::Excused => count.excused += 1,
            Verdict::Wrong(why) => self.violations.push(why),
        }
    }

    /// How often each rule was asked, and excused.
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

/// The rules that so many schedules by chance judged too seldom, or excused too often.
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
fn a_rule_that_judges_nothing_is_told() {
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
