//! One run: what is asked for, at which boundary something happens, and what.

use super::act::Act;
use super::operation::Operation;
use crate::support::recorder::{Place, Point};
use std::fmt;

/// One run. Its name, such as `create/receipt#1/before/kill`, is how a person asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The operation.
    pub operation: Operation,
    /// The request.
    pub point: Point,
    /// Where it is stopped.
    pub place: Place,
    /// What happens then.
    pub act: Act,
}

impl Case {
    /// Every boundary of an operation and each of these acts, where they make sense.
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
            // At the apiserver it is the same as a kill after the effect.
            Act::Sent => changes && !self.point.kind.is_kubernetes() && self.place == Place::Before,
            Act::Deleted => {
                let buys = [Operation::Create, Operation::Recreate];
                changes && buys.contains(&self.operation)
            }
            // Each run takes as long as a Lease: what was carried out and is not known of is the place that tells most.
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
