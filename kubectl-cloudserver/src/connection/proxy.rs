//! The proxy between a command and the apiserver, by the rules of Go's `net/http`, which are kubectl's.

use http::Uri;
use ipnet::IpNet;
use std::net::IpAddr;

/// The proxy to the cluster, if any: the kubeconfig's, regardless of `NO_PROXY`, or else the environment's.
pub(super) fn proxy_to(
    cluster: &Uri,
    of_kubeconfig: Option<&str>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, String> {
    if let Some(url) = of_kubeconfig.filter(|url| !url.is_empty()) {
        return parsed(url, "the proxy-url of the kubeconfig").map(Some);
    }
    let set = |names: [&'static str; 2]| {
        let value = |name| environment(name).filter(|value: &String| !value.is_empty());
        names
            .into_iter()
            .find_map(|name| Some((name, value(name)?)))
    };
    let named = match cluster.scheme_str() {
        Some("http") => set(["HTTP_PROXY", "http_proxy"]),
        _ => set(["HTTPS_PROXY", "https_proxy"]),
    };
    let direct = set(["NO_PROXY", "no_proxy"]).map_or(String::new(), |(_, list)| list);
    let named = named.filter(|_| !is_direct(cluster, &direct));
    named.map(|(name, url)| parsed(&url, name)).transpose()
}

/// The URL of a proxy; http if it names no scheme. It may hold a password, so no message shows it.
fn parsed(url: &str, what: &'static str) -> Result<Uri, String> {
    let url = match url.split_once("://") {
        // The client library knows only socks5, with which it resolves names at the proxy, as socks5h requests.
        Some(("socks5h", rest)) => format!("socks5://{rest}"),
        Some(_) => url.to_owned(),
        None => format!("http://{url}"),
    };
    let is_usable = |uri: &Uri| match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(at)) => !at.host().is_empty(),
        // The client library ignores a login in an address with socks5.
        (Some("socks5"), Some(at)) => !at.host().is_empty() && !at.as_str().contains('@'),
        _ => false,
    };
    let uri = url.parse().ok().filter(is_usable);
    uri.ok_or_else(|| {
        format!("{what} is no URL of a proxy, such as http://proxy.example:3128 or socks5://127.0.0.1:1080 (without a login): fix it")
    })
}

/// Whether the environment's proxy is not used: the list of `NO_PROXY` names the cluster, or the cluster is on this machine.
fn is_direct(cluster: &Uri, list: &str) -> bool {
    let host = cluster.host().unwrap_or_default().to_lowercase();
    let host = host.trim_matches(['[', ']']);
    let default = match cluster.scheme_str() {
        Some("http") => 80,
        _ => 443,
    };
    let port = format!(":{}", cluster.port_u16().unwrap_or(default));
    let address: Option<IpAddr> = host.parse().ok();
    let is_named = |entry: &str| {
        if let Ok(network) = entry.parse::<IpNet>() {
            return address.is_some_and(|address| network.contains(&address));
        }
        if let Ok(named) = entry.parse::<IpAddr>() {
            return address == Some(named);
        }
        let name = entry.strip_suffix(&port).unwrap_or(entry);
        if let Ok(named) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
            return address == Some(named);
        }
        // A name that begins with a dot stands only for the hosts below it.
        let below_star = name.strip_prefix('*').filter(|rest| rest.starts_with('.'));
        let name = below_star.unwrap_or(name);
        let below = host.strip_suffix(name).filter(|_| !name.is_empty());
        below.is_some_and(|below| name.starts_with('.') || below.is_empty() || below.ends_with('.'))
    };
    let is_local = host == "localhost" || address.is_some_and(|address| address.is_loopback());
    let list = list.to_lowercase();
    let mut entries = list.split(',').map(str::trim);
    is_local || entries.any(|entry| entry == "*" || is_named(entry))
}
