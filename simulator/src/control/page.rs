//! The page of the control port for people: which servers there are.

use std::fmt::Write as _;

use crate::model::World;

/// The page; plain enough to need no script.
pub(super) fn home(world: &World) -> String {
    let mut rows = String::new();
    for server in world.servers().iter().rev() {
        let gone = if server.released_at.is_some() {
            " class=\"gone\""
        } else {
            ""
        };
        let status = if server.released_at.is_some() {
            "released"
        } else {
            server.status
        };
        // Writing to a string cannot fail.
        writeln!(
            rows,
            "<tr{gone}><td>{}<td>{}<td>{}<td>{}<td>{}<td>{status}<td>{}<td>{:.0} s",
            escape(&server.name),
            escape(&server.id),
            escape(&server.account),
            escape(&server.zone),
            escape(&server.package),
            server.pending,
            server.billed.as_secs_f64(),
        )
        .ok();
    }
    let live = world.live_servers().len();
    format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"2\">\
         <title>Cloud simulator</title>\
         <style>body{{font:15px system-ui;margin:2em}}td,th{{padding:.2em .8em;text-align:left}}\
         .gone{{color:#999}}</style>\
         <h1>Cloud simulator</h1><p>{live} servers live. \
         <a href=\"/ledger\">Ledger</a>, <a href=\"/faults\">faults</a>, <a href=\"/readings\">readings</a>.\
         <table><tr><th>Name<th>Id<th>Account<th>Zone<th>Package<th>Status<th>Pending<th>Billed\n{rows}</table>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
