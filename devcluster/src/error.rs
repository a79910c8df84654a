//! The errors of a cluster.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::executables;

/// The reason why a cluster did not start or did not carry out a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The executables are not available.
    #[error(transparent)]
    Executables(#[from] executables::Error),
    /// The runtime was shut down during the search for the executables or their build.
    #[error("the search for the control plane's executables was broken off")]
    BrokenOff(#[source] tokio::task::JoinError),
    /// Another cluster runs in the directory.
    #[error("another cluster runs in {}: stop that one, or name another directory", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The cluster's directory cannot be prepared.
    #[error("cannot prepare the directory {} of the cluster", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Keys or certificates cannot be made.
    #[error("cannot make the cluster's keys and certificates")]
    Credentials(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is no free port on loopback.
    #[error("cannot choose a free port on 127.0.0.1")]
    Ports(#[source] io::Error),
    /// The script that starts and ends the processes does not run.
    #[error("cannot run the cluster's supervisor, a script for `sh`")]
    Supervisor(#[source] io::Error),
    /// A process ended although it should serve.
    #[error("{component} ended with code {code}; the end of its log:\n{log}")]
    Exited {
        /// The executable.
        component: &'static str,
        /// Its exit code, as a shell reports it.
        code: String,
        /// The last lines of its log.
        log: String,
    },
    /// A process runs, but did not become ready in time.
    #[error("{component} is not ready in time ({last}); the end of its log:\n{log}")]
    NotReady {
        /// The executable.
        component: &'static str,
        /// The result of the last check.
        last: String,
        /// The last lines of its log.
        log: String,
    },
    /// A client cannot be made from the cluster's kubeconfig, or gets no answer.
    #[error("cannot talk to the cluster")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The file is a kubeconfig for other clusters.
    #[error("{} leads to other clusters and is not overwritten: name another file", path.display())]
    ForeignKubeconfig {
        /// The file.
        path: PathBuf,
    },
    /// A kubeconfig cannot be written.
    #[error("cannot write the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn directory(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Directory { path, source }
    }
}
