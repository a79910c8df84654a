//! The parts that operator and plugin share as programs: durations, output, and a memory that stays private.

mod duration;
mod output;
mod private;

pub use duration::duration;
pub use output::{failed, note, print};
pub use private::keep_private;
