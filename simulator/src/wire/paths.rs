//! Paths that are served otherwise than the specification words them.

use std::collections::BTreeMap;

use super::endpoint::Endpoint;

/// Where endpoints are served that have left their own paths. Rules, ledger and model know the own paths only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    moved: BTreeMap<Endpoint, String>,
}

impl Paths {
    /// Serves an endpoint at another path. Its own path is nobody's from then on.
    pub fn serve_at(&mut self, endpoint: Endpoint, path: &str) {
        self.moved.insert(endpoint, path.to_owned());
    }

    /// The own path of what is served at a path. A path that its endpoint has left says where it went: no endpoint is
    /// there, and the ledger tells why.
    #[must_use]
    pub fn own(&self, asked: &str) -> String {
        if let Some((endpoint, _)) = self.moved.iter().find(|(_, path)| *path == asked) {
            return endpoint.path().to_owned();
        }
        match Endpoint::at(asked).and_then(|endpoint| self.moved.get(&endpoint)) {
            Some(path) => format!("{asked} (served at {path})"),
            None => asked.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_was_left_is_nobodys_and_may_be_anothers() {
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
