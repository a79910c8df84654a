//! The connections of the process: one pair of HTTP clients for each distinct route, shared by all Accounts that use the route.

use super::address::Target;
use super::budget::Budget;
use super::egress::{Egress, Exempt, Filter, Lookup, system};
use super::endpoint::{AllowedEndpoints, check_endpoint};
use super::error::BuildError;
use super::tls::{Tls, TlsError};
use super::transport::{Carrier, Pair, Transport, builder};
use super::trust::Trust;
use crate::runtime::tls::install_provider;
use std::collections::HashMap;
use std::iter;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use url::{Host, Url};

/// The connections of the process. Cheap to clone. All Accounts share one value; each adds its own [`Route`].
#[derive(Clone)]
pub struct Http {
    backend: Backend,
    allowed: AllowedEndpoints,
    route: Route,
    budget: Budget,
}

#[derive(Clone)]
enum Backend {
    Network(Arc<Network>),
    Carried(Carrier),
}

/// The settings of an Account for the connection to its service.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// The trusted authorities, and the client certificate.
    pub tls: Tls,
    /// The proxy for connections.
    pub proxy: Option<String>,
}

struct Network {
    egress: Egress,
    lookup: Lookup,
    /// Trusts the system's authorities. Read once, since there are many.
    system: Arc<Trust>,
    /// A pair exists while at least one [`Transport`] uses it.
    pairs: Mutex<HashMap<RouteKey, Weak<Pair>>>,
}

/// Identifies a pair. Accounts with the same key share connections.
#[derive(Clone, PartialEq, Eq, Hash)]
struct RouteKey {
    tls: [u8; 32],
    proxy: Option<Url>,
    exempt: Exempt,
}

impl Http {
    /// The connections of a user's command to these endpoints. They go wherever the user's machine can go, through the proxies
    /// of the environment unless the Account has a proxy, as those of any other command. Installs the TLS provider of the process.
    ///
    /// # Errors
    /// The platform's certificates cannot be used.
    pub fn new(allowed: AllowedEndpoints) -> Result<Self, BuildError> {
        Self::network(allowed, Egress::Anywhere)
    }

    /// The connections of the operator, which acts for many users, to these endpoints. They never go to an internal address
    /// unless an allowed endpoint names the host, and use no proxy except that of the Account. Installs the TLS provider of the
    /// process.
    ///
    /// # Errors
    /// The platform's certificates cannot be used.
    pub fn guarded(allowed: AllowedEndpoints) -> Result<Self, BuildError> {
        Self::network(allowed, Egress::Guarded)
    }

    fn network(allowed: AllowedEndpoints, egress: Egress) -> Result<Self, BuildError> {
        install_provider();
        let trusted = Trust::system().map_err(|_| BuildError::Tls(TlsError::Setup))?;
        let network = Network {
            egress,
            lookup: system(),
            system: Arc::new(trusted),
            pairs: Mutex::default(),
        };
        Ok(Self {
            backend: Backend::Network(Arc::new(network)),
            allowed,
            route: Route::default(),
            budget: Budget::default(),
        })
    }

    /// Uses no network: every request goes to this carrier.
    pub fn carried(by: Carrier) -> Self {
        Self {
            backend: Backend::Carried(by),
            allowed: AllowedEndpoints::default(),
            route: Route::default(),
            budget: Budget::default(),
        }
    }

    /// The endpoint as requests use it.
    ///
    /// # Errors
    /// It is not a plain http or https URL, or it is not allowed.
    pub fn endpoint(&self, endpoint: &str) -> Result<Url, BuildError> {
        let endpoint = check_endpoint(endpoint)?;
        match self.allowed.allow(&endpoint) {
            true => Ok(endpoint),
            false => Err(BuildError::NotAllowed),
        }
    }

    /// The same connections with an Account's own route.
    #[must_use]
    pub fn with_route(&self, route: Route) -> Self {
        Self {
            route,
            ..self.clone()
        }
    }

    /// The memory for the answers of services.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Replaces the default budget, which is the operator's.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Creates the transport for calls to this endpoint.
    pub(super) fn open(self, endpoint: &Url) -> Result<Transport, BuildError> {
        let Self { allowed, route, .. } = self;
        let network = match self.backend {
            Backend::Carried(carrier) => return Ok(Transport::Carried(carrier)),
            Backend::Network(network) => network,
        };
        let proxy = route.proxy.as_deref().map(check_proxy).transpose()?;
        let of_proxy = proxy.as_ref().map(|url| (Target::Proxy, url));
        let urls = iter::once((Target::Endpoint, endpoint)).chain(of_proxy);
        let exempt = network.egress.check(&allowed, urls)?;
        // A proxy could read the traffic of an Account that brings its own authority, so the proxy must be allowed, too.
        if proxy.as_ref().is_some_and(|proxy| !allowed.allow(proxy)) {
            return Err(BuildError::ProxyNotAllowed);
        }
        let key = RouteKey {
            tls: route.tls.digest(),
            proxy,
            exempt,
        };
        let mut pairs = network.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pair) = pairs.get(&key).and_then(Weak::upgrade) {
            return Ok(Transport::Network(pair));
        }
        pairs.retain(|_, pair| pair.strong_count() > 0);
        let pair = Arc::new(network.pair(&route.tls, &key)?);
        pairs.insert(key, Arc::downgrade(&pair));
        Ok(Transport::Network(pair))
    }
}

impl Network {
    fn pair(&self, tls: &Tls, key: &RouteKey) -> Result<Pair, BuildError> {
        let config = tls.config(self.system.clone()).map_err(BuildError::Tls)?;
        let resolver = Arc::new(Filter {
            lookup: self.lookup.clone(),
            exempt: key.exempt.clone(),
        });
        Pair::of(|| {
            let mut builder = builder()
                .tls_backend_preconfigured(config.clone())
                .dns_resolver(resolver.clone());
            if let Some(proxy) = &key.proxy {
                builder = builder.proxy(reqwest::Proxy::all(proxy.clone())?);
            } else if self.egress == Egress::Guarded {
                builder = builder.no_proxy();
            }
            Ok(builder)
        })
        .map_err(BuildError::Http)
    }
}

/// Whether requests to an endpoint can be read in transit: the endpoint is not https and not on this machine. Through a proxy,
/// nothing counts as on this machine. False for an invalid endpoint, which is never called.
pub fn goes_in_the_clear(endpoint: &str, by_proxy: bool) -> bool {
    let Ok(url) = check_endpoint(endpoint) else {
        return false;
    };
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name.trim_end_matches('.') == "localhost",
        None => false,
    };
    url.scheme() == "http" && (by_proxy || !is_here)
}

/// Parses a proxy that connections can use.
///
/// # Errors
/// It is not an http URL with a host, an optional port and nothing else.
pub fn check_proxy(proxy: &str) -> Result<Url, BuildError> {
    let url = Url::parse(proxy.trim()).map_err(|_| BuildError::Proxy("is no URL"))?;
    if url.scheme() != "http" || url.host().is_none() {
        return Err(BuildError::Proxy("does not begin with http:// and a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BuildError::Proxy("has user information in it"));
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(BuildError::Proxy("has more in it than host and port"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests;
