//! The operator as a process of its own.

use super::wait::eventually;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Deviations from the usual way to start it.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// An executable other than the one that was built with the tests.
    pub executable: Option<String>,
    /// A program and its arguments; the operator's command line follows, and the program becomes the operator's process.
    pub around: Vec<String>,
    /// Environment variables in addition to the usual ones.
    pub environment: Vec<(String, String)>,
}

/// The endpoints that the operator of a test may call by default.
const ALLOWED: &str = "http://127.0.0.1:*,https://127.0.0.1:*,http://cloud.invalid";

/// A running operator. Dropping it kills its process.
pub struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    /// Starts it with this kubeconfig and these flags; its log goes to a file of its own.
    pub fn start<F: AsRef<OsStr>>(
        kubeconfig: &Path,
        flags: impl IntoIterator<Item = F>,
        log: PathBuf,
        filter: &str,
        launch: &Launch,
    ) -> Self {
        let file = File::create(&log).unwrap();
        let name = log.file_stem().unwrap().to_owned();
        let mut command = command(kubeconfig, filter, &name, launch);
        let child = command.args(flags).stderr(file).spawn().unwrap();
        Self { child, log }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL; returns after the process has ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM: asks it to end.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// SIGSTOP: when this returns, the process stands still at an arbitrary place, without noticing it.
    pub fn pause(&self) {
        devcluster::freeze(self.id()).unwrap();
    }

    /// SIGCONT: the process continues where it stood.
    pub fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(
            sent.success(),
            "the operator was not there to get SIG{name}"
        );
    }

    /// The part before the underscore of its identity in its Lease.
    pub fn name(&self) -> String {
        self.log.file_stem().unwrap().to_str().unwrap().to_owned()
    }

    /// Waits until it has exited.
    pub async fn ended(&mut self) -> ExitStatus {
        eventually("the operator ends", async || {
            match self.child.try_wait().unwrap() {
                Some(status) => Ok(status),
                None => Err("it runs".to_owned()),
            }
        })
        .await
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The address at which it serves /readyz and /metrics, according to its log.
    pub async fn address(&self) -> String {
        eventually("the operator logs its addresses", async || {
            let log = self.log_text();
            let found = log.lines().find_map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).ok()?;
                line["address"].as_str().map(ToOwned::to_owned)
            });
            found.ok_or_else(|| format!("its log: {log}"))
        })
        .await
    }

    /// The URL of one of its pages.
    pub async fn url(&self, page: &str) -> String {
        format!("http://{}/{page}", self.address().await)
    }

    /// Waits until `/readyz` reports that it is ready.
    pub async fn ready(&self) {
        let address = self.address().await;
        eventually("/readyz is ok", async || {
            let answer = get(&format!("http://{address}/readyz")).await?;
            if answer.0 == 200 {
                Ok(())
            } else {
                Err(format!("{} {}", answer.0, answer.2))
            }
        })
        .await;
    }

    /// The page of metrics: its content type and text.
    pub async fn metrics(&self) -> (String, String) {
        let (status, kind, text) = get(&format!("http://{}/metrics", self.address().await))
            .await
            .unwrap();
        assert_eq!(status, 200);
        (kind, text)
    }

    /// Everything that it has logged.
    pub fn log_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The end of its log, for failure messages.
    pub fn log_tail(&self) -> String {
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!(
                "--- the operator's log, {} ---\n{}\n---",
                self.log.display(),
                self.log_tail()
            );
        }
    }
}

fn command(kubeconfig: &Path, filter: &str, name: &OsStr, launch: &Launch) -> Command {
    let ours = env!("CARGO_BIN_EXE_operator-under-test").to_owned();
    // The operator dies with the test that started it, even if the test is killed.
    let operator = [
        "/usr/bin/setpriv".to_owned(),
        "--pdeathsig=KILL".to_owned(),
        launch.executable.clone().unwrap_or(ours),
    ];
    let line = [&launch.around[..], &operator].concat();
    let mut command = Command::new(&line[0]);
    command
        .args(&line[1..])
        .args(["run", "--listen", "127.0.0.1:0"])
        // No settings of this machine: neither a proxy nor another cluster.
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .env("POD_NAME", name)
        .env("RUST_LOG", filter)
        .env("CSO_ALLOWED_ENDPOINTS", ALLOWED)
        .env("RUST_BACKTRACE", "1")
        .envs(launch.environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Status, content type and text of a page.
pub async fn get(url: &str) -> Result<(u16, String, String), String> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .build()
        .map_err(|e| e.to_string())?;
    let answer = client.get(url).send().await.map_err(|e| e.to_string())?;
    let kind = answer
        .headers()
        .get("content-type")
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    Ok((
        answer.status().as_u16(),
        kind,
        answer.text().await.map_err(|e| e.to_string())?,
    ))
}
