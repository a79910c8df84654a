//! The files of a kubeconfig, found and merged as kubectl does it.

use super::error::ConnectError;
use kube::config::{Kubeconfig, KubeconfigError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why a file that `KUBECONFIG` lists is skipped.
pub(super) const SKIPPED: &[ErrorKind] = &[ErrorKind::NotFound];

/// Why `~/.kube/config` is skipped: no user named it, and the home directory of a container may be anything.
pub(super) const SKIPPED_BY_DEFAULT: &[ErrorKind] = &[
    ErrorKind::NotFound,
    ErrorKind::NotADirectory,
    ErrorKind::PermissionDenied,
];

/// The files, merged, and why some of them do not count.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) merged: Kubeconfig,
    skipped: Vec<String>,
}

impl Files {
    /// The file that is named; else those of `KUBECONFIG`, else `~/.kube/config`, where files that do not exist are skipped.
    pub(super) fn read(named: Option<&Path>) -> Result<Self, ConnectError> {
        if let Some(file) = named {
            let merged = Kubeconfig::read_from(file);
            let merged = merged.map_err(|source| ConnectError::Kubeconfig { source })?;
            return Self::default().with(merged);
        }
        let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let listed = std::env::split_paths(&listed);
        let files: Vec<PathBuf> = listed.filter(|file| !file.as_os_str().is_empty()).collect();
        if files.is_empty() {
            let default = std::env::home_dir().map(|home| home.join(".kube/config"));
            return Self::merge(default.as_slice(), SKIPPED_BY_DEFAULT);
        }
        Self::merge(&files, SKIPPED)
    }

    /// Merges the files. One that cannot be read for one of these reasons is skipped.
    pub(super) fn merge(files: &[PathBuf], skipped: &[ErrorKind]) -> Result<Self, ConnectError> {
        files.iter().try_fold(
            Self::default(),
            |mut all, file| match Kubeconfig::read_from(file) {
                Ok(read) => all.with(read),
                Err(KubeconfigError::ReadConfig(error, _)) if skipped.contains(&error.kind()) => {
                    all.skipped.push(format!("{}: {error}", file.display()));
                    Ok(all)
                }
                Err(source) => Err(ConnectError::Kubeconfig { source }),
            },
        )
    }

    /// The first file that sets a value wins. An empty name of the current context sets nothing.
    fn with(mut self, mut read: Kubeconfig) -> Result<Self, ConnectError> {
        read.current_context = read.current_context.filter(|name| !name.is_empty());
        let merged = self.merged.merge(read);
        self.merged = merged.map_err(|source| ConnectError::Kubeconfig { source })?;
        Ok(self)
    }

    /// Whether no file names anything to talk to.
    pub(super) fn is_empty(&self) -> bool {
        let all = &self.merged;
        all.current_context.is_none() && all.contexts.is_empty() && all.clusters.is_empty()
    }

    /// The files that were skipped, as a part of a message.
    pub(super) fn missing(&self) -> String {
        match self.skipped.is_empty() {
            true => String::new(),
            false => format!(" ({})", self.skipped.join("; ")),
        }
    }
}
