//! The offers of the service, each list read to its end.

use crate::unreadable;
use cloud_server_operator::catalog::{self, Candidates};
use cloud_server_operator::cloud::{CallPriority, Client, List, Offer};

/// A list of the service.
pub(super) struct Listed {
    pub(super) rows: Vec<Offer>,
    /// Why rows may be missing; none if the list is complete.
    pub(super) doubt: Option<&'static str>,
}

pub(super) async fn read(client: &Client, list: &List) -> Result<Listed, String> {
    let page = |page| client.offers(CallPriority::Urgent, list, page);
    if list.is_paged() {
        let listed = catalog::read(list, page).await;
        let listed = listed.map_err(|unread| unreadable(client, list.name(), unread))?;
        let doubt = listed.doubt();
        let rows = listed.rows;
        return Ok(Listed { rows, doubt });
    }
    // Packages in several zones of a region share a code, and `catalog::read` would keep only one row of each code.
    let page = page(1).await;
    let page = page.map_err(|error| unreadable(client, list.name(), error))?;
    let doubt = catalog::doubt(true, page.unreadable == 0);
    let rows = page.rows;
    Ok(Listed { rows, doubt })
}

/// The remedy for a flag with a value that the service does not list, or lists several times.
pub(super) fn choose(flag: &str, near: &Candidates) -> String {
    match near.is_empty() {
        true => format!("none is listed: leave {flag} out"),
        false => format!("listed are {near}: name one of these with {flag}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_left_out_where_the_service_lists_nothing_for_it() {
        let near = Candidates::of([("r-1-a".to_owned(), Some("A".to_owned()))]);
        assert_eq!(
            choose("--zone", &near),
            "listed are r-1-a (A): name one of these with --zone"
        );
        assert_eq!(
            choose("--zone", &Candidates::default()),
            "none is listed: leave --zone out"
        );
    }
}
