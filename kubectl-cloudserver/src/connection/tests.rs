//! The configuration that flags, kubeconfigs and the environment make.

use super::proxy::proxy_to;
use super::*;
use clap::Parser;
use secrecy::ExposeSecret;
use std::fs;
use tempfile::TempDir;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    connection: ConnectionArgs,
}

const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: one, cluster: {server: 'https://one.example:6443', tls-server-name: inner, proxy-url: 'http://proxy.example:3128'}}
- {name: two, cluster: {server: 'https://two.example'}}
users:
- {name: ann, user: {token: of-ann, as: dev, as-groups: [devs]}}
- {name: bob, user: {token: of-bob}}
contexts:
- {name: one, context: {cluster: one, user: ann, namespace: team-a}}
- {name: two, context: {cluster: two, user: bob, namespace: ''}}
";

/// The configuration that these flags make of the kubeconfig.
fn config(flags: &[&str]) -> Result<Config, String> {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config");
    fs::write(&file, KUBECONFIG).unwrap();
    let file = file.display().to_string();
    let line = [&["x", "--kubeconfig", &file][..], flags].concat();
    let line = Line::try_parse_from(line).map_err(|error| error.to_string())?;
    line.connection.config()
}

fn token(config: &Config) -> Option<&str> {
    config
        .auth_info
        .token
        .as_ref()
        .map(ExposeSecret::expose_secret)
}

#[test]
fn flags_choose_parts_of_the_kubeconfig_as_with_kubectl() {
    let plain = config(&[]).unwrap();
    assert_eq!(plain.cluster_url, "https://one.example:6443");
    assert_eq!(plain.default_namespace, "team-a");
    assert_eq!(plain.tls_server_name.as_deref(), Some("inner"));
    assert_eq!(token(&plain), Some("of-ann"));
    assert_eq!(plain.proxy_url.unwrap(), "http://proxy.example:3128");
    let other = config(&["--context", "two"]).unwrap();
    assert_eq!(other.cluster_url, "https://two.example");
    assert_eq!(
        (token(&other), &*other.default_namespace),
        (Some("of-bob"), "default")
    );
    let mixed = config(&["--cluster=two", "--user=bob"]).unwrap();
    assert_eq!(mixed.cluster_url, "https://two.example");
    assert_eq!(
        (token(&mixed), &*mixed.default_namespace),
        (Some("of-bob"), "team-a")
    );
}

#[test]
fn flags_replace_values_of_the_kubeconfig() {
    let flags = [
        "-s",
        "three.example:8443",
        "--tls-server-name=three",
        "--token=mine",
        "--as-uid=7",
    ];
    let all = config(&[&flags[..], &["--insecure-skip-tls-verify"]].concat()).unwrap();
    assert_eq!(all.cluster_url, "https://three.example:8443");
    assert_eq!(all.tls_server_name.as_deref(), Some("three"));
    assert!(all.accept_invalid_certs);
    assert_eq!(token(&all), Some("mine"));
    // A token replaces the credentials, and keeps the impersonation.
    assert_eq!(all.auth_info.impersonate.as_deref(), Some("dev"));
    assert_eq!(all.auth_info.impersonate_uid.as_deref(), Some("7"));
    let acting = config(&["--as=root", "--as-group=a", "--as-group=b"]).unwrap();
    assert_eq!(acting.auth_info.impersonate.as_deref(), Some("root"));
    assert_eq!(
        acting.auth_info.impersonate_groups,
        Some(vec!["a".to_owned(), "b".to_owned()])
    );
    assert_eq!(token(&acting), Some("of-ann"));
    let certificate = config(&["--client-certificate=c.pem", "--client-key=k.pem"]).unwrap();
    assert_eq!(certificate.auth_info.client_key.as_deref(), Some("k.pem"));
    assert_eq!(
        token(&certificate),
        None,
        "the certificate replaces the token"
    );
}

#[test]
fn the_name_in_the_certificate_belongs_to_the_address_of_the_kubeconfig() {
    let other = config(&["--server=three.example"]).unwrap();
    assert_eq!(other.tls_server_name, None);
    for (flag, skips) in [("=true", true), ("=false", false), ("", true)] {
        let flag = format!("--insecure-skip-tls-verify{flag}");
        assert_eq!(config(&[&flag]).unwrap().accept_invalid_certs, skips);
    }
}

#[test]
fn an_authority_is_read_from_its_file() {
    let key = rcgen::KeyPair::generate().unwrap();
    let made = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
    let made = made.self_signed(&key).unwrap();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("ca.pem");
    fs::write(&file, made.pem()).unwrap();
    let flag = format!("--certificate-authority={}", file.display());
    let read = config(&[&flag]).unwrap();
    assert_eq!(read.root_cert, Some(vec![made.der().to_vec()]));
    assert!(!read.accept_invalid_certs);
    fs::write(&file, made.pem().trim_end().repeat(2)).unwrap();
    let joined = config(&[&flag]).unwrap();
    assert_eq!(joined.root_cert.map(|all| all.len()), Some(2));
    let why = config(&[&flag, "--insecure-skip-tls-verify"]).unwrap_err();
    for named in ["--certificate-authority", "--insecure-skip-tls-verify"] {
        assert!(why.contains(named), "{why}");
    }
    fs::write(&file, "no certificate").unwrap();
    let why = config(&[&flag]).unwrap_err();
    assert!(why.contains("no certificate in PEM"), "{why}");
}

#[test]
fn a_name_that_no_kubeconfig_has_is_reported_with_its_flag() {
    for (flags, words) in [
        (&["--context=three"][..], "context \"three\""),
        (&["--cluster=three"], "cluster \"three\""),
        (&["--user=eve"], "user \"eve\""),
        (&["--server=https://"], "--server"),
        (&["--client-key=k.pem"], "--client-certificate"),
    ] {
        let why = config(flags).unwrap_err();
        assert!(why.contains(words), "{flags:?}: {why}");
    }
}

#[test]
fn missing_and_empty_files_of_a_kubeconfig_list_are_skipped() {
    let directory = TempDir::new().unwrap();
    let at = |name: &str, text: &str| {
        let file = directory.path().join(name);
        fs::write(&file, text).unwrap();
        file
    };
    let missing = directory.path().join("missing");
    let unset = "apiVersion: v1\nkind: Config\ncurrent-context: ''\nclusters: null\n";
    let files = [
        missing,
        at("empty", ""),
        at("comment", "# nothing yet\n"),
        at("dashes", "---\n"),
        at("unset", unset),
        at("whole", KUBECONFIG),
    ];
    let is_missing = |kind| kind == ErrorKind::NotFound;
    let (read, skipped) = merged(&files, is_missing).unwrap();
    assert_eq!(read.current_context.as_deref(), Some("one"));
    assert_eq!(read.contexts.len(), 2);
    assert!(skipped.contains("missing: No such file"), "{skipped}");
    // A file that cannot be read is no missing one.
    assert!(merged(&[directory.path().to_owned()], is_missing).is_err());
    assert!(merged(&[at("broken", "clusters: [")], |_| true).is_err());
    let below_file = [at("whole", KUBECONFIG).join("config")];
    assert!(merged(&below_file, is_missing).is_err());
    let (default, skipped) = merged(&below_file, |_| true).unwrap();
    assert!(default.contexts.is_empty() && skipped.contains("Not a directory"));
}

#[test]
fn a_timeout_is_a_duration_or_a_number_of_seconds_of_at_most_a_year() {
    assert_eq!(timeout("90s"), Ok(Duration::from_secs(90)));
    assert_eq!(timeout("5"), Ok(Duration::from_secs(5)));
    for zero in ["0", "0s"] {
        assert_eq!(timeout(zero), Ok(LONGEST_TIMEOUT));
    }
    assert_eq!(timeout(&u64::MAX.to_string()), Ok(LONGEST_TIMEOUT));
    assert!(timeout("soon").is_err());
}

/// The proxy to this cluster in this environment.
fn proxy(cluster: &str, environment: &[(&str, &str)]) -> Option<String> {
    let cluster = cluster.parse().unwrap();
    let value = |name: &str| {
        let found = environment.iter().find(|(named, _)| *named == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let found = proxy_to(&cluster, None, value).unwrap();
    found.map(|uri| uri.to_string())
}

#[test]
fn no_proxy_is_compared_with_the_cluster_as_kubectl_does() {
    let is_direct = |cluster: &str, list: &str| {
        let set = [("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", list)];
        proxy(cluster, &set).is_none()
    };
    let direct = [
        ("https://api.example", "api.example"),
        ("https://api.example", "API.Example"),
        ("https://API.example", "api.example"),
        ("https://api.example", "example"),
        ("https://api.example", ".example"),
        ("https://api.example", "*.example"),
        ("https://api.example", "*"),
        ("https://api.example", "other, ,api.example,"),
        ("https://api.example:6443", "api.example:6443"),
        ("https://api.example", "api.example:443"),
        ("https://10.96.0.1", "10.96.0.0/12"),
        ("https://10.96.0.1", "10.96.0.1"),
        ("https://10.96.0.1:6443", "10.96.0.1:6443"),
        ("https://[fd00::1]:6443", "fd00::/8"),
        ("https://[fd00::1]:6443", "fd00:0::1"),
        ("https://[fd00::1]:6443", "[fd00::1]:6443"),
        // The machine itself, regardless of the list.
        ("https://127.0.0.1:6443", ""),
        ("https://[::1]:6443", ""),
        ("https://localhost:6443", ""),
    ];
    for (cluster, list) in direct {
        assert!(is_direct(cluster, list), "{cluster} {list}");
    }
    let by_proxy = [
        ("https://api.example", ""),
        ("https://api.example", "proxy"),
        ("https://api.example", "pi.example"),
        ("https://api.example", "api.example:6443"),
        ("https://example", ".example"),
        ("https://example", "*.example"),
        ("https://api.example", "*api.example"),
        ("https://api.example", "api.example.org"),
        ("https://10.96.0.1", "10.0.0.0/12"),
        ("https://10.96.0.1", "0.96.0.1"),
        ("https://api.example", "no/host"),
        ("https://api.example", "a b"),
    ];
    for (cluster, list) in by_proxy {
        assert!(!is_direct(cluster, list), "{cluster} {list}");
    }
}

#[test]
fn the_proxy_of_the_kubeconfig_comes_before_that_of_the_environment() {
    let cluster: Uri = "https://api.example".parse().unwrap();
    let by = |named: &str| {
        let environment = |name: &str| match name {
            "HTTPS_PROXY" => Some("http://proxy".to_owned()),
            "NO_PROXY" => Some("*".to_owned()),
            _ => None,
        };
        proxy_to(&cluster, Some(named), environment)
    };
    assert_eq!(
        by("socks5://other:1080").unwrap().unwrap(),
        "socks5://other:1080/"
    );
    assert_eq!(by("").unwrap(), None);
    for with_user in ["socks5://secret:secret@other", "socks5h://secret@other"] {
        let why = by(with_user).unwrap_err();
        assert!(
            why.contains("without a login") && !why.contains("secret"),
            "{why}"
        );
    }
    for wrong in ["ftp://other", "http://", "secret:secret@"] {
        let why = by(wrong).unwrap_err();
        assert!(
            why.contains("proxy-url") && !why.contains("secret"),
            "{why}"
        );
    }
}

#[test]
fn the_scheme_of_the_cluster_decides_which_variable_counts() {
    let both = [
        ("HTTPS_PROXY", "secure:1"),
        ("http_proxy", "plain:2"),
        ("ALL_PROXY", "all:3"),
    ];
    assert_eq!(
        proxy("https://api.example", &both).unwrap(),
        "http://secure:1/"
    );
    assert_eq!(
        proxy("http://api.example", &both).unwrap(),
        "http://plain:2/"
    );
    assert_eq!(proxy("https://api.example", &both[1..]), None);
    let small = [("HTTPS_PROXY", ""), ("https_proxy", "socks5h://small:1")];
    assert_eq!(
        proxy("https://api.example", &small).unwrap(),
        "socks5://small:1/"
    );
}
