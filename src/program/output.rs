//! Standard output and standard error. A lint forbids `print!` and its like everywhere else.

use crate::api::printable;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Writes an answer to standard output. A pipe that its reader closed is no error. Any other error, such as a full disk, is
/// reported in the name of `program`, and the command fails.
pub fn print(program: &str, text: &str) -> ExitCode {
    match write(io::stdout().lock(), text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => failed(
            program,
            &format!("the output could not be written: {error}"),
        ),
    }
}

/// Writes a message for people to standard error. If that fails too, no place is left to report it.
pub fn note(text: &str) {
    let _ = write(io::stderr().lock(), text);
}

/// Reports on standard error why `program` failed.
pub fn failed(program: &str, why: &str) -> ExitCode {
    note(&format!("{program}: {}", printable(why)));
    ExitCode::FAILURE
}

fn write(mut out: impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}
