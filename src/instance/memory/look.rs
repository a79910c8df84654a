//! The last answers about the recorded server and about its task.

use crate::api::Verb;
use crate::cloud::{TaskId, TaskState};
use crate::instance::fact::Fact;
use crate::instance::temporary_state::Temporary;
use tokio::time::Instant;

/// The last read of the server's detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// When the detail was last requested. None if it never was, or must be read again.
    pub at: Option<Instant>,
    /// The request brought no answer, or an error.
    pub is_unreadable: bool,
    /// The last answer.
    pub answer: LastAnswer,
    /// The state that the listing showed at the last answer, unless a listing has agreed with status since. So a row that differs
    /// from the detail leads to one read, and not to one for each listing.
    pub row: Option<RowDigest>,
}

/// The service's answer to a read of the detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastAnswer {
    /// There was none.
    #[default]
    None,
    /// The server exists.
    Exists {
        /// Since when every answer has shown an idle server.
        idle_since: Option<Instant>,
        /// The temporary state that it was in, and since when.
        temporary: Option<Temporary>,
    },
    /// No such server exists.
    Absent {
        /// Since when every answer has been that one.
        since: Instant,
    },
}

/// The state that a listing shows of a server, to notice that a later listing shows another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowDigest {
    /// The server is not in the listing.
    Absent,
    /// [`Row::digest`](crate::inventory::Row::digest) of its row.
    Row(u64),
}

impl Look {
    /// Whether the last answer showed the server.
    pub fn exists(&self) -> bool {
        matches!(self.answer, LastAnswer::Exists { .. })
    }

    /// Whether the last answer was that no such server exists.
    pub fn is_absent(&self) -> bool {
        self.absent_since().is_some()
    }

    /// Since when every answer has been that no such server exists.
    pub fn absent_since(&self) -> Option<Instant> {
        match self.answer {
            LastAnswer::Absent { since } => Some(since),
            LastAnswer::None | LastAnswer::Exists { .. } => None,
        }
    }

    /// Since when every answer has shown an idle server.
    pub fn idle_since(&self) -> Option<Instant> {
        match self.answer {
            LastAnswer::Exists { idle_since, .. } => idle_since,
            LastAnswer::None | LastAnswer::Absent { .. } => None,
        }
    }

    /// A listing showed the server busy after the last answer.
    pub fn was_busy(&mut self) {
        if let LastAnswer::Exists { idle_since, .. } = &mut self.answer {
            *idle_since = None;
        }
    }

    /// Whether a read that was requested at this instant or later was answered.
    pub fn was_answered_since(&self, instant: Instant) -> bool {
        self.at.is_some_and(|at| at >= instant) && !self.is_unreadable
    }
}

/// The queries for a task.
#[derive(Clone, Debug)]
pub struct Poll {
    pub task: TaskId,
    /// The operation of the task.
    pub verb: Verb,
    /// When the task began, as far as this process knows.
    pub since: Instant,
    /// Whether this process saw the task begin, so that its duration can be learnt.
    pub seen_begin: bool,
    /// When the task was last queried.
    pub last: Option<Instant>,
    /// The answer to that query.
    pub answer: Fact<TaskState>,
    /// Since when every query has failed or reported an unknown state.
    pub inconclusive_since: Option<Instant>,
}

impl Poll {
    /// The queries for the task of an operation that began at this instant, as far as this process knows; continues the former
    /// ones for the same task.
    pub fn of(
        former: Option<Box<Self>>,
        task: TaskId,
        verb: Verb,
        began: Option<Instant>,
        now: Instant,
    ) -> Box<Self> {
        let former = former.filter(|poll| poll.task == task);
        former.unwrap_or_else(|| {
            Box::new(Self {
                task,
                verb,
                since: began.unwrap_or(now),
                seen_begin: began.is_some(),
                last: None,
                answer: Fact::NotRead,
                inconclusive_since: None,
            })
        })
    }

    /// Whether the task has ended, or the service does not know it any more.
    pub fn is_over(&self) -> bool {
        match &self.answer {
            Fact::Known(state) => state.is_final(),
            Fact::Absent => true,
            Fact::NotRead | Fact::Unknown(_) => false,
        }
    }

    /// Takes in the answer to a query.
    pub fn answered(&mut self, answer: Fact<TaskState>, now: Instant) {
        let is_conclusive = !matches!(
            answer,
            Fact::Unknown(_) | Fact::Known(TaskState::Unknown { .. })
        );
        let since = self.inconclusive_since.unwrap_or(now);
        self.inconclusive_since = (!is_conclusive).then_some(since);
        self.answer = answer;
    }
}
