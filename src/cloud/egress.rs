//! Restricts the addresses to which connections may go.
//!
//! A URL with a literal address never uses a resolver, so it is checked when a client is created. A name is checked each time
//! it is resolved, that is, for each new connection, so that a later change of its addresses is noticed. With a proxy, only the
//! proxy's name is resolved in this process; the proxy resolves the name of the endpoint.

use super::address::{Refused, Target, internal_class};
use super::endpoint::AllowedEndpoints;
use super::error::BuildError;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;
use url::{Host, Url};

/// Resolves a name.
pub(super) type Lookup =
    Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Maximum number of concurrent look-ups of one name. Each occupies a thread until its name server answers, and the whole process
/// has 512 such threads.
const LOOKUPS: usize = 2;

/// The destinations that requests may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Egress {
    /// No restriction: a command on a user's own machine has that user's network and rights, like any other client.
    Anywhere,
    /// No internal addresses, unless an allowed endpoint names the host.
    Guarded,
}

/// The hosts of one client for which internal addresses are allowed, or all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Exempt {
    All,
    Hosts(Vec<String>),
}

impl Egress {
    /// Checks those of the URLs whose host is a literal address. Returns the hosts that are allowed regardless of their
    /// address.
    ///
    /// # Errors
    /// A host is an internal address.
    pub(super) fn check<'a>(
        self,
        allowed: &AllowedEndpoints,
        urls: impl IntoIterator<Item = (Target, &'a Url)>,
    ) -> Result<Exempt, BuildError> {
        if self == Self::Anywhere {
            return Ok(Exempt::All);
        }
        let mut exempt = Vec::new();
        for (target, url) in urls {
            // Only a pattern that matches the whole URL, port included, exempts the host: another port of the host is another
            // service.
            if allowed.name_host_of(url) {
                exempt.extend(url.host_str().map(str::to_owned));
                continue;
            }
            let address = match url.host() {
                Some(Host::Ipv4(address)) => IpAddr::V4(address),
                Some(Host::Ipv6(address)) => IpAddr::V6(address),
                Some(Host::Domain(_)) | None => continue,
            };
            if let Some(class) = internal_class(address) {
                return Err(BuildError::Address(target, Refused { address, class }));
            }
        }
        exempt.sort();
        exempt.dedup();
        Ok(Exempt::Hosts(exempt))
    }
}

/// Resolves names with the system's resolver.
pub(super) fn system() -> Lookup {
    let under_way: Arc<Mutex<HashMap<String, Weak<Semaphore>>>> = Arc::default();
    Arc::new(move |name| {
        let permits = {
            let mut under_way = under_way.lock().unwrap_or_else(PoisonError::into_inner);
            let permits = under_way.get(&name).and_then(Weak::upgrade);
            permits.unwrap_or_else(|| {
                under_way.retain(|_, permits| permits.strong_count() > 0);
                let permits = Arc::new(Semaphore::new(LOOKUPS));
                under_way.insert(name.clone(), Arc::downgrade(&permits));
                permits
            })
        };
        Box::pin(async move {
            let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
            // In its own task: if the caller stops waiting, the thread stays occupied, so the permit must stay taken, too.
            let looking = tokio::spawn(async move {
                // The connector sets the port.
                let found = tokio::net::lookup_host((name.as_str(), 0)).await;
                drop(permit);
                found.map(Iterator::collect)
            });
            looking.await.map_err(io::Error::other)?
        })
    })
}

/// Resolves names, and drops the addresses to which nothing may be sent.
pub(super) struct Filter {
    pub(super) lookup: Lookup,
    pub(super) exempt: Exempt,
}

impl Resolve for Filter {
    fn resolve(&self, name: Name) -> Resolving {
        let is_exempt = match &self.exempt {
            Exempt::All => true,
            Exempt::Hosts(hosts) => hosts.iter().any(|host| host == name.as_str()),
        };
        let found = (self.lookup)(name.as_str().to_owned());
        Box::pin(async move { Ok(permitted(found.await?.into_iter(), is_exempt)?) })
    }
}

/// The addresses that may be used, in the order of the answer.
///
/// # Errors
/// Every address is internal. The error names the smallest one, so that it does not depend on the order of the answer.
fn permitted(found: impl Iterator<Item = SocketAddr>, is_exempt: bool) -> Result<Addrs, Refused> {
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    for address in found {
        match internal_class(address.ip()).filter(|_| !is_exempt) {
            None => good.push(address),
            Some(class) => refused.push(Refused {
                address: address.ip(),
                class,
            }),
        }
    }
    match refused.into_iter().min_by_key(|refused| refused.address) {
        Some(refused) if good.is_empty() => Err(refused),
        _ => Ok(Box::new(good.into_iter())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &[&str], url: &str) -> Result<Exempt, BuildError> {
        let patterns: Vec<_> = allowed.iter().map(|text| text.parse().unwrap()).collect();
        let url = Url::parse(url).unwrap();
        Egress::Guarded.check(&patterns.into(), [(Target::Endpoint, &url)])
    }

    /// Covers every notation that URLs allow for an address.
    #[test]
    fn an_internal_address_in_a_url_is_refused_in_every_spelling() {
        for url in [
            "http://169.254.169.254/latest/meta-data",
            "http://169.254.169.254./",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://0251.0376.0251.0376/",
            "http://169.254.43518/",
            "http://127.1/",
            "http://0/",
            "https://[::1]:8443/",
            "https://[fe80::1]/",
            "https://[::ffff:169.254.169.254]/",
            "https://[::ffff:a9fe:a9fe]/",
            "https://[fd00:ec2::254]/",
            "http://１２７.0.0.1/",
            "http://%31%32%37.0.0.1/",
        ] {
            let refused = check(&[], url);
            assert!(
                matches!(refused, Err(BuildError::Address(Target::Endpoint, _))),
                "{url}: {refused:?}"
            );
        }
        for url in [
            "http://10.0.0.1/",
            "https://[fd12::1]/",
            "https://cloud.example/",
        ] {
            assert_eq!(check(&[], url).unwrap(), Exempt::Hosts(Vec::new()), "{url}");
        }
    }

    #[test]
    fn only_the_address_that_an_allowed_endpoint_names_is_allowed() {
        let named = ["http://127.0.0.1:8080"];
        let exempt = check(&named, "http://127.0.0.1:8080/api").unwrap();
        assert_eq!(exempt, Exempt::Hosts(vec!["127.0.0.1".to_owned()]));
        assert!(check(&named, "http://127.0.0.1:8081/api").is_err());
        assert!(check(&named, "http://127.0.0.2:8080/api").is_err());
        // A wildcard pattern does not name the hosts that it matches.
        let below = check(&["*.cloud.example"], "https://meta.cloud.example").unwrap();
        assert_eq!(below, Exempt::Hosts(Vec::new()));
        let url = Url::parse("http://127.0.0.1/").unwrap();
        let anywhere = Egress::Anywhere.check(&Vec::new().into(), [(Target::Endpoint, &url)]);
        assert_eq!(anywhere.unwrap(), Exempt::All);
    }

    #[test]
    fn only_the_allowed_addresses_of_a_lookup_are_used() {
        let answer = |addresses: &[&str]| {
            let parsed: Vec<SocketAddr> = addresses
                .iter()
                .map(|address| SocketAddr::new(address.parse().unwrap(), 0))
                .collect();
            let permitted = permitted(parsed.into_iter(), false);
            permitted.map(|good| good.map(|a| a.ip().to_string()).collect::<Vec<_>>())
        };
        let good = answer(&["169.254.169.254", "192.0.2.7", "::1", "2001:db8::1"]);
        assert_eq!(good.unwrap(), ["192.0.2.7", "2001:db8::1"]);
        let refused = answer(&["::1", "127.0.0.1"]).unwrap_err();
        assert_eq!(refused.to_string(), "127.0.0.1, a loopback address");
        assert_eq!(answer(&["127.0.0.1", "::1"]).unwrap_err(), refused);
        assert!(answer(&[]).unwrap().is_empty());
    }
}
