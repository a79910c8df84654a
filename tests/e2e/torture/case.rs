//! One run: an operation, a boundary, and a fault at that boundary.

use super::act::Act;
use super::operation::Operation;
use crate::support::recorder::{Place, Point};
use std::fmt;

/// One run. A name like `create/receipt#1/before/kill` selects it in `TORTURE_ONLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The operation.
    pub operation: Operation,
    /// The request.
    pub point: Point,
    /// The place where it is stopped.
    pub place: Place,
    /// The fault there.
    pub act: Act,
}

impl Case {
    /// Every boundary of an operation, combined with each of these acts where they make sense.
    pub fn all(operation: Operation, points: &[Point], acts: &[Act]) -> Vec<Self> {
        let mut cases = Vec::new();
        for point in points {
            for place in Place::ALL {
                cases.extend(acts.iter().map(|act| Self {
                    operation,
                    point: *point,
                    place,
                    act: *act,
                }));
            }
        }
        cases.retain(Self::makes_sense);
        cases
    }

    fn makes_sense(&self) -> bool {
        let changes = self.point.kind.is_mutation();
        let of_act = match self.act {
            // At the apiserver this equals a kill after the effect.
            Act::Sent => changes && !self.point.kind.is_kubernetes() && self.place == Place::Before,
            Act::Deleted => {
                let buys = [Operation::Create, Operation::Recreate];
                changes && buys.contains(&self.operation)
            }
            // Each run takes the time of a Lease, so only the most revealing place is tested: the request has taken
            // effect, and the operator does not know it.
            Act::Succeeded => self.place == Place::AfterEffect,
            Act::Kill | Act::Lost | Act::Late | Act::Reset | Act::TakeOver => true,
        };
        of_act && self.operation.is_about(self.point)
    }

    /// The name of its boundary.
    pub fn boundary(&self) -> String {
        format!("{}/{}/{}", self.operation, self.point, self.place)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.boundary(), self.act)
    }
}
