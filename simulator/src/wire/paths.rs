//! Endpoints that are served at other paths than the specified ones.

use std::collections::BTreeMap;

use super::endpoint::Endpoint;

/// The endpoints that are served at other paths. Rules, ledger and model use the specified paths only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    moved: BTreeMap<Endpoint, String>,
}

impl Paths {
    /// Serves an endpoint at another path. No endpoint is served at its specified path from then on.
    pub fn serve_at(&mut self, endpoint: Endpoint, path: &str) {
        self.moved.insert(endpoint, path.to_owned());
    }

    /// The specified path of the endpoint that is served at a path. For a path whose endpoint was moved, the result names the
    /// new path: it matches no endpoint, and the ledger shows why.
    #[must_use]
    pub fn own(&self, requested: &str) -> String {
        if let Some((endpoint, _)) = self.moved.iter().find(|(_, path)| *path == requested) {
            return endpoint.path().to_owned();
        }
        match Endpoint::at(requested).and_then(|endpoint| self.moved.get(&endpoint)) {
            Some(path) => format!("{requested} (served at {path})"),
            None => requested.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_path_is_free_for_another_endpoint() {
        let mut paths = Paths::default();
        assert_eq!(paths.own("/instance/stop"), "/instance/stop");
        paths.serve_at(Endpoint::Stop, "/v9/halt");
        assert_eq!(paths.own("/v9/halt"), "/instance/stop");
        assert_eq!(Endpoint::at(&paths.own("/instance/stop")), None);
        paths.serve_at(Endpoint::Start, "/instance/stop");
        assert_eq!(paths.own("/instance/stop"), "/instance/start");
        assert_eq!(paths.own("/region/list"), "/region/list");
    }
}
