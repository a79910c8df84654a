//! Three interpretations of the open points of the specification, for bounds that hold under each.

use cloud_simulator::Readings;
use cloud_simulator::readings::{
    FailureShape, HttpStatus, ListRows, ResultWhileProcessing, TaskId,
};

pub fn specified() -> Readings {
    Readings::default()
}

/// Minimal rows, nested identifiers, and refusals within a 2xx answer.
pub fn minimal() -> Readings {
    Readings {
        task_id: TaskId::Nested,
        http_status: HttpStatus::Ok,
        list_rows: ListRows::Minimal,
        not_found: FailureShape::SuccessFalse,
        refusals: FailureShape::SuccessFalse,
        ..Readings::default()
    }
}

/// Flat identifiers, no result while a task runs, and refusals in an envelope.
pub fn null() -> Readings {
    Readings {
        task_id: TaskId::Flat,
        result_while_processing: ResultWhileProcessing::Null,
        not_found: FailureShape::Envelope,
        refusals: FailureShape::Envelope,
        ..Readings::default()
    }
}
