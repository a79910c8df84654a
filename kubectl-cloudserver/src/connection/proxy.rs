//! The proxy between a command and the apiserver, by the rules of Go's `net/http`, which are kubectl's.

use super::error::ConnectError;
use http::Uri;
use ipnet::IpNet;
use std::net::IpAddr;

/// Schemes of proxies.
const SCHEMES: [&str; 3] = ["http", "https", "socks5"];

/// The proxy by which the cluster is asked, if any: the one of the kubeconfig, which `NO_PROXY` does not concern, else the one of
/// the environment.
pub(super) fn between(
    cluster: &Uri,
    of_kubeconfig: Option<&str>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, ConnectError> {
    if let Some(url) = of_kubeconfig.filter(|url| !url.is_empty()) {
        return parsed(url, "the proxy-url of the kubeconfig").map(Some);
    }
    let first = |names: [&'static str; 2]| {
        let value = |name| environment(name).filter(|value: &String| !value.is_empty());
        names
            .into_iter()
            .find_map(|name| Some((name, value(name)?)))
    };
    let named = match cluster.scheme_str() {
        Some("http") => first(["HTTP_PROXY", "http_proxy"]),
        _ => first(["HTTPS_PROXY", "https_proxy"]),
    };
    let Some((name, url)) = named else {
        return Ok(None);
    };
    let direct = first(["NO_PROXY", "no_proxy"]).map(|(_, list)| list);
    if is_direct(cluster, &direct.unwrap_or_default()) {
        return Ok(None);
    }
    parsed(&url, name).map(Some)
}

/// The URL of a proxy, which is one of http where it names no scheme. It may hold a password, so that no message shows it.
fn parsed(url: &str, what: &'static str) -> Result<Uri, ConnectError> {
    let url = match url.split_once("://") {
        // Both resolve names at the proxy; the client library knows one of them.
        Some(("socks5h", rest)) => format!("socks5://{rest}"),
        Some(_) => url.to_owned(),
        None => format!("http://{url}"),
    };
    let uri = url.parse::<Uri>().ok();
    let is_known = |uri: &Uri| {
        uri.scheme_str()
            .is_some_and(|scheme| SCHEMES.contains(&scheme))
    };
    let uri = uri
        .filter(|uri| is_known(uri) && uri.host().is_some())
        .ok_or(ConnectError::NoProxy { what })?;
    let has_user = |uri: &Uri| uri.authority().is_some_and(|at| at.as_str().contains('@'));
    // The client library ignores them in an address with socks5.
    match uri.scheme_str() == Some("socks5") && has_user(&uri) {
        true => Err(ConnectError::SocksUser { what }),
        false => Ok(uri),
    }
}

/// Whether the list of `NO_PROXY` names the cluster. The machine itself is never asked through a proxy.
fn is_direct(cluster: &Uri, list: &str) -> bool {
    let host = cluster.host().unwrap_or_default().to_lowercase();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let default = if cluster.scheme_str() == Some("http") {
        80
    } else {
        443
    };
    let port = cluster.port_u16().unwrap_or(default);
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let entries = list
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty());
    entries.map(str::to_lowercase).any(|entry| {
        if entry == "*" {
            return true;
        }
        if let Ok(network) = entry.parse::<IpNet>() {
            return address.is_some_and(|address| network.contains(&address));
        }
        let (name, of_port) = apart(&entry);
        if of_port.is_some_and(|of_port| of_port != port) {
            return false;
        }
        if let Ok(named) = name.parse::<IpAddr>() {
            return address == Some(named);
        }
        // A suffix that begins with a dot stands for the hosts below it alone.
        let name = if name.starts_with("*.") {
            &name[1..]
        } else {
            name
        };
        let below = host.strip_suffix(name);
        below.is_some_and(|below| name.starts_with('.') || below.is_empty() || below.ends_with('.'))
    })
}

/// An entry without its port, and the port.
fn apart(entry: &str) -> (&str, Option<u16>) {
    let split = entry
        .rsplit_once(':')
        .filter(|_| entry.parse::<IpAddr>().is_err());
    let split = split.and_then(|(name, port)| Some((name, Some(port.parse().ok()?))));
    let (name, port) = split.unwrap_or((entry, None));
    (name.trim_start_matches('[').trim_end_matches(']'), port)
}
