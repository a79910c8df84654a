//! Standard output and standard error. A lint forbids `print!` and its like everywhere else.

use crate::api::names::MANAGER;
use crate::api::printable;
use anstream::AutoStream;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Writes an answer to standard output; colours reach a terminal only. A reader that closes the pipe has read enough. Any other
/// error, such as a full disk, is reported, and the command fails.
pub fn print(text: &str) -> ExitCode {
    match write(AutoStream::auto(io::stdout().lock()), text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => failed(&format!("the output could not be written: {error}")),
    }
}

/// Writes a message for people to standard error. If that fails too, no place is left to report it.
pub fn note(text: &str) {
    let _ = write(AutoStream::auto(io::stderr().lock()), text);
}

fn write(mut out: impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Reports on standard error why a command failed.
pub fn failed(why: &str) -> ExitCode {
    note(&format!("{MANAGER}: {}", printable(why)));
    ExitCode::FAILURE
}
