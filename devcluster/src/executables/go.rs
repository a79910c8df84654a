//! The machine's Go: checks that it exists and is new enough.

use std::{
    fmt,
    path::Path,
    process::{Command, Stdio},
};

use super::Error;

/// The version that `go.mod` requires.
pub(super) const OLDEST: Version = Version {
    major: 1,
    minor: 26,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// Parses `go1.26.8` or `go1.27rc1`. `None` for a development build, which has no such version.
    fn parse(text: &str) -> Option<Self> {
        let (major, rest) = text.strip_prefix("go")?.split_once('.')?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A Go command whose result depends on our module and not on the user's settings.
///
/// The user's settings for the module proxy and the network still apply.
pub(super) fn command(directory: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(directory)
        .env("CGO_ENABLED", "0")
        .env("GO111MODULE", "on")
        // Go refuses modules that go.mod and go.sum do not list, instead of looking for them. (An empty value would fall back
        // to the value that `go env -w` has set.)
        .env("GOFLAGS", "-mod=readonly")
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .env_remove("GOARCH")
        .env_remove("GOOS")
        .env_remove("GOEXPERIMENT")
        .env_remove("GODEBUG")
        .stdin(Stdio::null());
    command
}

/// Refuses a missing or too old Go, before minutes are spent on a build.
///
/// `directory` must not contain a `go.mod`, which an old Go refuses to read.
pub(super) fn check(directory: &Path) -> Result<(), Error> {
    let output = command(directory)
        .args(["env", "GOVERSION"])
        .output()
        .map_err(Error::NoGo)?;
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match Version::parse(&found) {
        Some(version) if version < OLDEST => Err(Error::OldGo { found }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_older_release_is_too_old() {
        let too_old = |text| Version::parse(text).is_some_and(|version| version < OLDEST);
        assert!(too_old("go1.25.9"));
        assert!(too_old("go1.9"));
        assert!(!too_old("go1.26.0"));
        assert!(!too_old("go1.27rc1"));
        assert!(!too_old("go2.0"));
        assert!(!too_old("devel go1.28-abcdef"));
    }
}
