//! The four executables of a control plane: finds or builds them.

mod build;
mod go;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use crate::progress;

/// The variable that names a directory of existing executables. Other test tools of Kubernetes use the same variable.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// The version of Kubernetes that is built here.
pub const KUBERNETES_VERSION: &str = "1.36.3";

/// The version of etcd that is built here.
pub const ETCD_VERSION: &str = "3.6.8";

/// Provides garbage collection and the deletion of namespaces, which a short demo does not need.
const CONTROLLERS: &str = "kube-controller-manager";

/// The names of the executables, in the order of their builds: each build reuses the packages that the previous one compiled.
const NAMES: [&str; 4] = ["etcd", "kube-apiserver", CONTROLLERS, "kubectl"];

/// The reason why the executables are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `KUBEBUILDER_ASSETS` names an incomplete directory.
    #[error(
        "{ASSETS_VARIABLE}={} has no {missing}: put it there, or unset the variable to have them built from source",
        directory.display()
    )]
    IncompleteAssets {
        /// The directory that the variable names.
        directory: PathBuf,
        /// The missing names, separated by commas.
        missing: String,
    },
    /// Neither `XDG_CACHE_HOME` nor `HOME` names a directory for the cache.
    #[error(
        "there is no place for the control plane's executables: set HOME or XDG_CACHE_HOME to an absolute path"
    )]
    NoCacheDirectory,
    /// Go is not installed or does not run.
    #[error(
        "the control plane is built once from source and `go` cannot be run: install Go {} or newer and put it in PATH",
        go::OLDEST
    )]
    NoGo(#[source] io::Error),
    /// The installed Go cannot compile this version of Kubernetes.
    #[error(
        "the control plane cannot be built with {found}: install Go {} or newer and put it first in PATH",
        go::OLDEST
    )]
    OldGo {
        /// The version that the installed Go reports.
        found: String,
    },
    /// The compiler or the download of a module failed.
    #[error("cannot build {executable}: {reason}")]
    Build {
        /// The name of the executable.
        executable: &'static str,
        /// The last lines of Go's output.
        reason: String,
    },
    /// A file of the cache cannot be read or written.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// The failed operation, as a verb.
        operation: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl Error {
    fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            operation,
            path,
            source,
        }
    }
}

/// A directory that contains etcd, kube-apiserver, kubectl and, unless it was left out, kube-controller-manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executables {
    directory: PathBuf,
}

impl Executables {
    /// Finds the executables, and builds those that are missing.
    ///
    /// Searches the directory that `KUBEBUILDER_ASSETS` names or, without the variable, the user's cache. Executables that are
    /// missing in the cache are built from source with the machine's Go. The build takes minutes and reports its progress on
    /// standard error. An interrupted build continues where it stopped. This function blocks its thread.
    ///
    /// # Errors
    /// The error names the missing part and the remedy.
    pub fn find_or_build() -> Result<Self, Error> {
        Self::find_or_build_with(true)
    }

    /// As [`Self::find_or_build`], with or without kube-controller-manager.
    ///
    /// # Errors
    /// As [`Self::find_or_build`].
    pub fn find_or_build_with(controllers: bool) -> Result<Self, Error> {
        let names = NAMES.into_iter();
        let names: Vec<_> = names
            .filter(|name| controllers || *name != CONTROLLERS)
            .collect();
        if let Some(directory) = std::env::var_os(ASSETS_VARIABLE).filter(|value| !value.is_empty())
        {
            return Self::in_assets(PathBuf::from(directory), &names);
        }
        let directory = cache_directory()?;
        let executables = Self { directory };
        if executables.missing(&names).is_empty() {
            return Ok(executables);
        }
        fs::create_dir_all(&executables.directory)
            .map_err(Error::file("create", &executables.directory))?;
        let _lock = lock(&executables.directory)?;
        // The process that held the lock before may have built the missing ones.
        let missing = executables.missing(&names);
        for (position, name) in missing.iter().enumerate() {
            let label = format!("[{}/{}] {name}", position + 1, missing.len());
            build::build(name, &label, &executables.directory)?;
        }
        build::clean_up(&executables.directory);
        Ok(executables)
    }

    /// The directory that contains the executables.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The executable with this name, one of `etcd`, `kube-apiserver`, `kube-controller-manager`, `kubectl`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn in_assets(directory: PathBuf, names: &[&'static str]) -> Result<Self, Error> {
        let executables = Self { directory };
        let missing = executables.missing(names);
        if missing.is_empty() {
            return Ok(executables);
        }
        Err(Error::IncompleteAssets {
            missing: missing.join(", "),
            directory: executables.directory,
        })
    }

    fn missing(&self, names: &[&'static str]) -> Vec<&'static str> {
        let names = names.iter().copied();
        names.filter(|name| !self.path(name).is_file()).collect()
    }
}

/// `…/cloud-server-operator/control-plane/<key>`: the key contains the versions, for people, and a digest of everything that
/// affects the build.
fn cache_directory() -> Result<PathBuf, Error> {
    let absolute = |variable: &str| {
        std::env::var_os(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .ok_or(Error::NoCacheDirectory)?;
    let key = format!(
        "kubernetes-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}-{}",
        build::digest()
    );
    Ok(cache
        .join("cloud-server-operator")
        .join("control-plane")
        .join(key))
}

/// Two test binaries may need the executables at once: the second waits for the first, and prints that it waits.
fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join(".lock");
    let file = File::create(&path).map_err(Error::file("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            progress::print(&format!(
                "waiting for another process that builds the control plane in {}",
                directory.display()
            ));
            file.lock().map_err(Error::file("lock", &path))?;
            Ok(file)
        }
        Err(TryLockError::Error(source)) => Err(Error::file("lock", &path)(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_without_the_controller_manager_are_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["etcd", "kube-apiserver", "kubectl"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let assets = |names| Executables::in_assets(directory.path().to_owned(), names);
        let error = assets(&NAMES).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(" has no kube-controller-manager: "),
            "{error}"
        );
        assert!(assets(&["etcd", "kube-apiserver", "kubectl"]).is_ok());
        fs::write(directory.path().join(CONTROLLERS), "").unwrap();
        assert!(assets(&NAMES).is_ok());
    }

    #[test]
    fn the_versions_named_are_those_of_the_modules() {
        let pins = |module: &str, version: &str| {
            let expected = [module, &format!("v{version}")];
            build::GO_MOD.lines().any(|line| {
                line.trim()
                    .trim_start_matches("require ")
                    .split(' ')
                    .take(2)
                    .eq(expected)
            })
        };
        assert!(pins("k8s.io/kubernetes", KUBERNETES_VERSION));
        assert!(pins("go.etcd.io/etcd/server/v3", ETCD_VERSION));
    }
}
