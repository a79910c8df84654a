//! One control plane: how it starts, its functions for tests, how it ends.

mod harm;

pub use harm::freeze;

use std::{
    fmt, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::{
    Component, Error, Executables,
    component::{AUDIT_POLICY, Settings},
    credentials::{self, Credentials},
    kubeconfig::{self, Server},
    ports::Ports,
    ready::{self, NotReady},
    supervisor::{Ending, Supervisor},
};

/// How many pairs of ports are tried. It is rare that another process takes a port between choice and bind; five times in a row
/// has another cause.
const ATTEMPTS: usize = 5;

/// How long a kept directory may still be busy because the previous cluster, whose owner was just killed, is shutting down.
const PREDECESSOR: Duration = Duration::from_secs(3);

/// The message of Go's servers if another process took the port.
const PORT_TAKEN: &str = "address already in use";

/// The settings of a cluster.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    fsync: bool,
    audit: bool,
    controllers: bool,
    data_dir: Option<PathBuf>,
}

impl Builder {
    /// Whether etcd waits for the disk, as in production. Off by default, since no test needs its data after a crash of the
    /// machine.
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.fsync = fsync;
        self
    }

    /// Whether the API writes its audit log. On by default.
    pub fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Whether kube-controller-manager runs. Without it nothing is garbage-collected, and a deleted namespace never disappears.
    /// On by default.
    pub fn controllers(mut self, controllers: bool) -> Self {
        self.controllers = controllers;
        self
    }

    /// The directory for all files of the cluster. The caller owns the directory: it stays, with the logs, when the cluster
    /// ends. A cluster that is started on it again has the same objects; only the audit log begins again. By default the cluster
    /// has a temporary directory, which is removed with it.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(directory.into());
        self
    }

    /// Starts the cluster and waits until it serves, which takes some three seconds. Missing executables are built first, which
    /// takes minutes.
    ///
    /// # Errors
    /// The error names the component that did not start, with the last lines of its log.
    pub async fn start(self) -> Result<Cluster, Error> {
        let controllers = self.controllers;
        let find = move || Executables::find_or_build_with(controllers);
        let executables = tokio::task::spawn_blocking(find)
            .await
            .map_err(Error::BrokenOff)??;
        let ports = Ports::choose().map_err(Error::Ports)?;
        self.start_on(ports, executables).await
    }

    async fn start_on(self, ports: Ports, executables: Executables) -> Result<Cluster, Error> {
        let (directory, supervisor) = self.open_directory().await?;
        let credentials =
            credentials::write(&directory).map_err(|error| Error::Credentials(error.into()))?;
        fs::write(directory.join("audit-policy.yaml"), AUDIT_POLICY)
            .map_err(Error::directory(&directory))?;
        let audit_log_path = directory.join("audit.log");
        credentials::write_private(&audit_log_path, "").map_err(Error::directory(&directory))?;
        let mut cluster = Cluster {
            server: Server::on_loopback(ports.apiserver, &credentials.ca_pem),
            kubeconfig_path: directory.join("kubeconfig"),
            kubectl_path: executables.path("kubectl"),
            audit_log_path,
            fsync: self.fsync,
            audit: self.audit,
            controllers: self.controllers,
            supervisor,
            directory,
            executables,
            credentials,
            ports,
        };
        for _ in 1..ATTEMPTS {
            match cluster.start_components().await {
                Err(Error::Exited { log, .. }) if log.contains(PORT_TAKEN) => {
                    cluster.move_to_other_ports().await?;
                }
                result => return result.map(|()| cluster),
            }
        }
        cluster.start_components().await.map(|()| cluster)
    }

    /// The cluster's directory, and the supervisor, which later removes the directory unless the caller keeps it.
    async fn open_directory(&self) -> Result<(PathBuf, Supervisor), Error> {
        let Some(directory) = &self.data_dir else {
            let parent = std::env::temp_dir();
            let directory = tempfile::Builder::new()
                .prefix("devcluster-")
                .permissions(fs::Permissions::from_mode(0o700))
                .tempdir()
                .map_err(Error::directory(&parent))?;
            let supervisor =
                Supervisor::start(directory.path(), Ending::Remove).map_err(Error::Supervisor)?;
            // From here on, the supervisor is responsible for removing the directory.
            return Ok((directory.keep(), supervisor));
        };
        fs::create_dir_all(directory).map_err(Error::directory(directory))?;
        // An absolute path is valid in every process that gets it as an argument, regardless of the working directory.
        let directory = directory
            .canonicalize()
            .map_err(Error::directory(directory))?;
        let deadline = Instant::now() + PREDECESSOR;
        loop {
            match Supervisor::start(&directory, Ending::Keep) {
                Ok(supervisor) => return Ok((directory, supervisor)),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Err(Error::Supervisor(error));
                }
                Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(50)).await,
                Err(_) => return Err(Error::InUse { path: directory }),
            }
        }
    }
}

/// A running control plane.
///
/// It ends with [`Cluster::stop`], when it is dropped, and when the process that started it ends in any way: its processes are
/// killed and its temporary directory is removed. A value in a `static` is never dropped, but it also ends with the process.
///
/// It is not bound to a runtime, so that tests with a runtime each can share it.
pub struct Cluster {
    // Dropped first, since its end uses the other fields.
    supervisor: Supervisor,
    directory: PathBuf,
    executables: Executables,
    credentials: Credentials,
    ports: Ports,
    server: Server,
    kubeconfig_path: PathBuf,
    kubectl_path: PathBuf,
    audit_log_path: PathBuf,
    fsync: bool,
    audit: bool,
    controllers: bool,
}

impl Cluster {
    /// The settings of a new cluster.
    pub fn builder() -> Builder {
        Builder {
            fsync: false,
            audit: true,
            controllers: true,
            data_dir: None,
        }
    }

    /// The URL of the API: `https://127.0.0.1:…`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.server.url
    }

    /// The authority that issued the API's certificate.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.server.ca_pem
    }

    /// The kubeconfig of an administrator (group `system:masters`, whose requests are always authorized).
    #[must_use]
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig_path
    }

    /// A kubectl of the same version. [`Self::kubectl`] is a command that is already configured for the cluster.
    #[must_use]
    pub fn kubectl_path(&self) -> &Path {
        &self.kubectl_path
    }

    /// A command of the cluster's own kubectl with the administrator's rights.
    ///
    /// It ignores the user's preferences and keeps its cache in the cluster's directory: kubectl distinguishes clusters by
    /// address, and another cluster may soon use the same port.
    #[must_use]
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl_path);
        command
            .env("KUBECONFIG", &self.kubeconfig_path)
            .env("KUBECACHEDIR", self.directory.join("kubectl-cache"))
            .env("KUBERC", "off");
        command
    }

    /// The log that [`crate::audit::read`] reads. Empty if auditing is off.
    #[must_use]
    pub fn audit_log_path(&self) -> &Path {
        &self.audit_log_path
    }

    /// The directory of this cluster: logs of the processes under `log/`, the data of etcd under `etcd/`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The process id of a component. `None` if it does not run.
    #[must_use]
    pub fn process_id(&self, component: Component) -> Option<u32> {
        self.supervisor.process_id(component)
    }

    /// A client with the administrator's rights. It does not retry, so that a test sees each answer of the API.
    ///
    /// # Errors
    /// The cluster's certificates do not make a TLS configuration.
    pub async fn client(&self) -> Result<kube::Client, Error> {
        self.client_for(&self.credentials.admin_token).await
    }

    /// A client with this bearer token.
    ///
    /// # Errors
    /// As [`Self::client`].
    pub async fn client_for(&self, token: &str) -> Result<kube::Client, Error> {
        kubeconfig::client(&self.server, token)
            .await
            .map_err(Error::Client)
    }

    /// The text of a kubeconfig with this bearer token.
    #[must_use]
    pub fn kubeconfig_for(&self, token: &str) -> String {
        kubeconfig::text(&self.server, token)
    }

    /// Writes a kubeconfig with this bearer token, readable by its owner only.
    ///
    /// # Errors
    /// The file cannot be written, or it exists and was not written by this crate.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>, token: &str) -> Result<(), Error> {
        let path = path.as_ref();
        if fs::read_to_string(path).is_ok_and(|text| !kubeconfig::is_ours(&text)) {
            return Err(Error::ForeignKubeconfig {
                path: path.to_owned(),
            });
        }
        credentials::write_private(path, &self.kubeconfig_for(token)).map_err(|source| {
            Error::Kubeconfig {
                path: path.to_owned(),
                source,
            }
        })
    }

    /// Writes the administrator's kubeconfig to another path.
    ///
    /// # Errors
    /// As [`Self::write_kubeconfig`].
    pub fn write_admin_kubeconfig(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.write_kubeconfig(path, &self.credentials.admin_token)
    }

    /// Kills a component, as a crash would, and returns when its process has ended. Its data stays.
    ///
    /// # Errors
    /// The process does not end.
    pub async fn stop_component(&self, component: Component) -> Result<(), Error> {
        if !self.supervisor.was_launched(component) {
            return Ok(());
        }
        self.supervisor.kill(component).map_err(Error::Supervisor)?;
        ready::gone(&self.supervisor, component)
            .await
            .map_err(|error| self.not_ready(component, error))
    }

    /// Starts a stopped component on the same port, and waits until it serves.
    ///
    /// # Errors
    /// It does not start, or does not serve in time.
    pub async fn start_component(&self, component: Component) -> Result<(), Error> {
        let settings = Settings {
            directory: &self.directory,
            etcd_name: &self.credentials.etcd_name,
            etcd_port: self.ports.etcd,
            apiserver_port: self.ports.apiserver,
            fsync: self.fsync,
            audit: self.audit,
        };
        if component == Component::ControllerManager {
            let client = self.client().await?;
            ready::forget_controllers(&client)
                .await
                .map_err(|error| Error::Client(error.into()))?;
        }
        let executable = self.executables.path(component.executable());
        self.supervisor
            .launch(component, &executable, &settings.arguments(component))
            .map_err(Error::Supervisor)?;

        let ready = match component {
            Component::Etcd => {
                ready::wait(&self.supervisor, component, async || {
                    ready::etcd(self.ports.etcd, &self.credentials.etcd_name).await
                })
                .await
            }
            Component::Apiserver => {
                let client = self.client().await?;
                ready::wait(&self.supervisor, component, async || {
                    ready::apiserver(&client).await
                })
                .await
            }
            Component::ControllerManager => {
                let client = self.client().await?;
                ready::wait(&self.supervisor, component, async || {
                    ready::controllers(&client).await
                })
                .await
            }
        };
        ready.map_err(|error| self.not_ready(component, error))
    }

    /// Ends the cluster and removes its temporary directory. Dropping does the same, but blocks its thread meanwhile.
    pub async fn stop(self) {
        // This fails only if the runtime ends, and then the value is dropped as well.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    /// Starts one component after the other: if a server finds its port taken, the next one must not talk to a foreign server
    /// on that port.
    async fn start_components(&self) -> Result<(), Error> {
        self.write_kubeconfig(&self.kubeconfig_path, &self.credentials.admin_token)?;
        self.write_kubeconfig(
            self.directory.join("controllers.kubeconfig"),
            &self.credentials.controllers_token,
        )?;
        self.start_component(Component::Etcd).await?;
        self.start_component(Component::Apiserver).await?;
        if self.controllers {
            self.start_component(Component::ControllerManager).await?;
        }
        Ok(())
    }

    async fn move_to_other_ports(&mut self) -> Result<(), Error> {
        self.stop_component(Component::Apiserver).await?;
        self.stop_component(Component::Etcd).await?;
        self.ports = Ports::choose().map_err(Error::Ports)?;
        self.server = Server::on_loopback(self.ports.apiserver, &self.credentials.ca_pem);
        Ok(())
    }

    fn not_ready(&self, component: Component, error: NotReady) -> Error {
        let log = self.supervisor.log_tail(component);
        let component = component.executable();
        match error {
            NotReady::Exited { code } => Error::Exited {
                component,
                code,
                log,
            },
            NotReady::TimedOut { last } => Error::NotReady {
                component,
                last,
                log,
            },
        }
    }
}

/// Omits the tokens, which would otherwise appear in the output of a failed test.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("url", &self.server.url)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
