//! The connection to the apiserver through a proxy: from the environment, or from the kubeconfig.

use super::{CommandOutput, PLUGIN, run};
use crate::support::{Launch, Operator, Setup, World, eventually, instance, is_for_now};
use data_encoding::BASE64;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinHandle;

/// A name that only the proxy can resolve.
const APISERVER: &str = "https://apiserver.invalid:6443";

/// A proxy for CONNECT and SOCKS5 that connects to one address, regardless of the requested target.
struct Proxy {
    address: String,
    /// The requested targets, each with its credentials.
    targets: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn to(place: &str) -> Self {
        let place = place.trim_start_matches("https://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let targets = Arc::new(Mutex::new(Vec::new()));
        let requested = targets.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                // A client may disconnect at any time.
                tokio::spawn(serve(near, place.clone(), requested.clone()));
            }
        });
        Self {
            address,
            targets,
            task,
        }
    }

    /// The requested targets since the last call.
    fn targets(&self) -> Vec<String> {
        let mut targets = std::mem::take(&mut *self.targets.lock().unwrap());
        targets.dedup();
        targets
    }
}

async fn serve(
    mut near: TcpStream,
    place: String,
    targets: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut first = [0];
    near.read_exact(&mut first).await?;
    let (target, granted) = match first {
        [5] => (socks(&mut near).await?, &b"\x05\0\0\x01\0\0\0\0\0\0"[..]),
        _ => (connect(&mut near).await?, &b"HTTP/1.1 200 OK\r\n\r\n"[..]),
    };
    targets.lock().unwrap().push(target);
    let mut far = TcpStream::connect(place).await?;
    near.write_all(granted).await?;
    tokio::io::copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

/// Reads a CONNECT request after its first character.
async fn connect(near: &mut TcpStream) -> std::io::Result<String> {
    let mut head = vec![b'C'];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(near.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.lines().next().unwrap().split(' ').nth(1).unwrap();
    let basic = head.lines().find_map(|line| {
        let line = line.strip_prefix("Proxy-Authorization: Basic ")?;
        String::from_utf8(BASE64.decode(line.as_bytes()).unwrap()).ok()
    });
    Ok(basic.map_or(target.to_owned(), |basic| format!("{target} as {basic}")))
}

/// Reads a SOCKS5 request for a name, after its first byte.
async fn socks(near: &mut TcpStream) -> std::io::Result<String> {
    let mut methods = vec![0; near.read_u8().await?.into()];
    near.read_exact(&mut methods).await?;
    near.write_all(b"\x05\0").await?;
    let mut head = [0; 5];
    near.read_exact(&mut head).await?;
    assert_eq!(head[..4], *b"\x05\x01\0\x03", "CONNECT by name");
    let mut name = vec![0; head[4].into()];
    near.read_exact(&mut name).await?;
    let port = near.read_u16().await?;
    Ok(format!("socks {}:{port}", String::from_utf8(name).unwrap()))
}

/// A kubeconfig for the world's apiserver at this address, with additional settings of its cluster.
fn kubeconfig(world: &World, directory: &Path, server: &str, token: &str, more: &str) -> PathBuf {
    let ca = BASE64.encode(world.apiserver().1.as_bytes());
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority-data: {ca}, tls-server-name: localhost{more}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{token: '{token}'}}}}]\n"
    );
    let file = directory.join("kubeconfig");
    std::fs::write(&file, text).unwrap();
    file
}

/// The administrator's token.
fn administrator(world: &World) -> String {
    let text = std::fs::read_to_string(world.shared.cluster.kubeconfig_path()).unwrap();
    let token = text.split_once("token: \"").unwrap().1;
    token.split_once('"').unwrap().0.to_owned()
}

/// Runs `status` with this kubeconfig in this environment.
async fn status(world: &World, kubeconfig: &Path, environment: &[(&str, &str)]) -> CommandOutput {
    let mut command = Command::new(PLUGIN);
    command.args(["status", "-n", &world.namespace, "--kubeconfig"]);
    command.arg(kubeconfig);
    for name in ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"] {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    run(&mut command, "").await
}

/// Repeats it until the apiserver answers.
async fn answered(world: &World, kubeconfig: &Path, environment: &[(&str, &str)]) {
    eventually("the command is answered", async || {
        let output = status(world, kubeconfig, environment).await;
        match output.status == 0 && output.out.contains("web") {
            true => Ok(()),
            false if is_for_now(&output.err) => Err(output.err),
            false => panic!("{environment:?}: {}{}", output.out, output.err),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxies_of_environment_and_kubeconfig_are_used_as_by_kubectl() {
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("proxies")
        .await;
    world.apply(&instance("web")).await;
    let (server, _) = world.apiserver();
    let proxy = Proxy::to(server).await;
    let directory = TempDir::new().unwrap();
    let token = administrator(&world);
    let at = |server: &str, more: &str| kubeconfig(&world, directory.path(), server, &token, more);
    let url = format!("http://{}", proxy.address);
    let named = ("HTTPS_PROXY", url.as_str());
    let by_name = "apiserver.invalid:6443";

    // The proxy from the environment.
    let file = at(APISERVER, "");
    let login = format!("http://me:pass%40word@{}", proxy.address);
    let socks = format!("socks5://{}", proxy.address);
    for (environment, target) in [
        (&[named][..], by_name.to_owned()),
        (&[("https_proxy", &proxy.address)], by_name.to_owned()),
        (
            &[named, ("NO_PROXY", "127.0.0.1,apiserver.example,")],
            by_name.to_owned(),
        ),
        (
            &[("HTTPS_PROXY", &login)],
            format!("{by_name} as me:pass@word"),
        ),
        (&[("HTTPS_PROXY", &socks)], format!("socks {by_name}")),
    ] {
        answered(&world, &file, environment).await;
        assert_eq!(proxy.targets(), [target], "{environment:?}");
    }
    for excluded in [
        "apiserver.invalid",
        ".invalid",
        "*.invalid",
        "*",
        "a,apiserver.invalid:6443",
    ] {
        let output = status(&world, &file, &[named, ("NO_PROXY", excluded)]).await;
        assert_eq!(output.status, 1, "no other way leads there: {}", output.out);
        assert!(output.err.contains(APISERVER), "{}", output.err);
        assert_eq!(proxy.targets(), [""; 0], "{excluded}");
    }

    // The proxy from the kubeconfig, which takes precedence.
    let file = at(APISERVER, &format!(", proxy-url: '{url}'"));
    let nowhere = [("HTTPS_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "*")];
    answered(&world, &file, &nowhere).await;
    assert_eq!(proxy.targets(), [by_name]);

    // Loopback is contacted directly.
    let file = at(server, "");
    for environment in [&[named][..], &[named, ("NO_PROXY", "127.0.0.0/8")]] {
        answered(&world, &file, environment).await;
        assert_eq!(proxy.targets(), [""; 0]);
    }

    // An operator outside of a Pod.
    let file = kubeconfig(
        &world,
        directory.path(),
        APISERVER,
        world.operator_token(),
        "",
    );
    let flags = [
        "--namespace",
        &world.namespace,
        "--leader-elect=false",
        "--keep-tokens=false",
    ];
    let flags = flags
        .into_iter()
        .chain(["--keep-tokens-namespace=cloud-server-system"]);
    let launch = Launch {
        environment: vec![("HTTPS_PROXY".to_owned(), url)],
        ..Launch::default()
    };
    let log = directory.path().join("operator.log");
    let operator = Operator::start(&file, flags, log, "info", &launch);
    operator.ready().await;
    assert_eq!(proxy.targets(), [by_name]);
    drop(operator);
    world.finish().await;
}

#[tokio::test]
async fn a_url_that_is_no_proxy_is_named_and_its_password_is_not_shown() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("kubeconfig");
    let text = super::unreachable::kubeconfig("apiserver.invalid", "token: t");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(PLUGIN);
    command.args(["status", "--kubeconfig"]).arg(&file);
    command.env("HTTPS_PROXY", "ftp://me:secret@proxy.example");
    let output = run(&mut command, "").await;
    assert_eq!(output.status, 1);
    assert!(
        output.err.contains("HTTPS_PROXY is no URL of a proxy"),
        "{}",
        output.err
    );
    assert!(!output.err.contains("secret"), "{}", output.err);
}
