//! Strings that form paths, queries or lines, in every field of both kinds and of the record: with any such value, no request
//! of a process leaves the namespace and the kinds of its own objects, or the service's paths.

use crate::apiserver::{ACCOUNTS, INSTANCES, Key};
use crate::fault::Step;
use crate::process::Process;
use crate::run::Recording;
use crate::universe::{Setting, Shared, instance};
use cloud_server_operator::api::names::BINDING;
use cloud_server_operator::api::{Account, Instance};
use cloud_server_operator::runtime::Shard;
use cloud_server_operator::runtime::chance;
use kube::CustomResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const HOSTILE: [&str; 10] = [
    "../../victim/secrets/x",
    "?limit=1",
    "login?watch=true",
    "login?fieldManager=me&force=true",
    "login/../../../../victim/secrets/x",
    "login%2f..%2fx",
    "..",
    "login/status",
    "a\r\nHost: evil.example",
    "\u{202e}\u{1b}[31m",
];

/// The path of a string in the schema: names of fields, and `[]` for the elements of a list.
type Path = Vec<String>;

/// Every string below a schema.
fn strings(schema: &Value, at: &[String], found: &mut Vec<Path>) {
    let step = |part: &str| [at, &[part.to_owned()]].concat();
    if schema["type"] == "string" {
        found.push(at.to_vec());
    }
    for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
        strings(inner, &step(field), found);
    }
    if schema["items"].is_object() {
        strings(&schema["items"], &step("[]"), found);
    }
    if schema["additionalProperties"].is_object() {
        strings(&schema["additionalProperties"], &step("any"), found);
    }
}

/// The smallest value that a schema accepts.
fn least(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten();
            let required = required.filter_map(Value::as_str);
            let fields =
                required.map(|field| (field.to_owned(), least(&schema["properties"][field])));
            Value::Object(fields.collect())
        }
        Some("array") => json!([]),
        Some("string") if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        Some("string") => json!("x"),
        Some("boolean") => json!(true),
        Some(_) => schema.get("minimum").cloned().unwrap_or(json!(1)),
        None => Value::Null,
    }
}

/// Puts a text at the path, inside of the values that the schema requires. Other values below the first field are removed,
/// since they may be the alternative to this one.
fn put(value: &mut Value, schema: &Value, path: &[String], text: &str, depth: usize) {
    let Some((first, rest)) = path.split_first() else {
        *value = json!(text);
        return;
    };
    if depth == 2 || value.is_null() {
        *value = least(schema);
    }
    if first == "[]" {
        let inner = &schema["items"];
        let mut item = least(inner);
        put(&mut item, inner, rest, text, depth + 1);
        *value = json!([item]);
    } else {
        let inner = match first.as_str() {
            "any" => &schema["additionalProperties"],
            field => &schema["properties"][field],
        };
        put(&mut value[first], inner, rest, text, depth + 1);
    }
}

fn schema(of: &impl serde::Serialize) -> Value {
    let definition = serde_json::to_value(of).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// When the text is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    /// Once there is a server with a record.
    Bought,
}

/// The requests of a process, to the apiserver and to the service.
#[derive(Default)]
struct Sent {
    to_apiserver: Vec<String>,
    to_service: Vec<String>,
    was_decodable: bool,
}

/// One life of an object into which a user inserts a text.
fn life(kind: &'static str, when: When, change: impl Fn(&mut Value)) -> Sent {
    chance::seed(7);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let universe = Shared::new(&Setting::default(), Vec::new(), Recording::Verdict);
        universe.lock().sent = Some(Default::default());
        universe.with(|u| u.step(&Step::Apply(1)));
        let key: Key = match kind {
            INSTANCES => instance(1),
            _ => (ACCOUNTS, "default".to_owned()),
        };
        if when == When::Before {
            universe.with(|u| u.kube.edit(&key, &change));
        }
        let process = Process::start(&universe, 1, Shard::WHOLE);
        process.lead(0);
        // Long enough for a purchase. Before it, a process looks for a server of an object whose creation it did not observe.
        listen(&universe, &process, 20).await;
        if when == When::Bought {
            universe.with(|u| u.kube.edit(&key, &change));
            listen(&universe, &process, 15).await;
        }
        let object = universe.lock().kube.get(&key).cloned().unwrap_or_default();
        universe.with(|u| u.step(&Step::Delete(1)));
        listen(&universe, &process, 60).await;
        process.kill();
        let sent = universe.lock().sent.take().unwrap_or_default();
        Sent {
            to_apiserver: sent.0,
            to_service: sent.1,
            was_decodable: match kind {
                INSTANCES => serde_json::from_value::<Instance>(object).is_ok(),
                _ => serde_json::from_value::<Account>(object).is_ok(),
            },
        }
    })
}

/// Lets this many seconds pass, during which the process gets watch events.
async fn listen(universe: &Shared, process: &Process, seconds: u64) {
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        for change in universe.with(|u| u.kube.take_changes()) {
            process.will_hear(Instant::now(), change);
        }
        sleep(Duration::from_millis(250)).await;
    }
}

/// Whether a request to the apiserver does not concern the objects of namespace team-a.
fn strays(line: &str) -> bool {
    let (verb, target) = line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_name = |name: &str| {
        let is_plain =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        !name.is_empty()
            && name.chars().all(is_plain)
            && !name.starts_with('.')
            && !name.contains("..")
    };
    let parts: Vec<&str> = path.split('/').collect();
    let is_ours = match parts[..] {
        ["", "api", "v1", "namespaces", "team-a", "secrets"] => true,
        ["", "api", "v1", "namespaces", "team-a", "secrets", name] => is_name(name),
        // The CA bundle of an Account.
        ["", "api", "v1", "namespaces", "team-a", "configmaps", name] => {
            verb == "GET" && is_name(name)
        }
        [
            "",
            "apis",
            "events.k8s.io",
            "v1",
            "namespaces",
            "team-a",
            "events",
        ] => true,
        [
            "",
            "apis",
            "cloudserver.dev",
            "v1alpha1",
            "namespaces",
            "team-a",
            kind,
            ref object @ ..,
        ] => {
            let is_object = matches!(object, [name] | [name, "status"] if is_name(name));
            [INSTANCES, ACCOUNTS].contains(&kind) && is_object
        }
        _ => false,
    };
    let keys = query.split('&').filter(|part| !part.is_empty());
    !is_ours
        || keys
            .into_iter()
            .any(|part| part != "fieldManager=cloud-server-operator")
}

/// Whether a call leaves the paths of the service.
fn is_astray(url: &str) -> bool {
    const PATHS: [&str; 15] = [
        "/instance/create",
        "/instance/release",
        "/instance/reinstallSystem",
        "/instance/modifyInstancePassword",
        "/instance/start",
        "/instance/stop",
        "/instance/restart",
        "/instance/detail",
        "/asynctask/getResult",
        "/instance/list",
        "/firewall/list",
        "/image/list",
        "/sshkey/list",
        "/package/list",
        "/region/list",
    ];
    const KEYS: [&str; 6] = [
        "ecsResourceUUID",
        "asyncTaskUUID",
        "regionCode",
        "zoneCode",
        "page",
        "pageSize",
    ];
    let url = reqwest::Url::parse(url).unwrap();
    let path = url.path().strip_prefix("/api").unwrap_or_default();
    let mut keys = url.query_pairs().map(|(key, _)| key.into_owned());
    url.host_str() != Some("cloud.example")
        || !PATHS.contains(&path)
        || keys.any(|key| !KEYS.contains(&key.as_str()))
        || url.fragment().is_some()
}

/// Plays every text at one path; returns the requests that leave their bounds.
fn play(
    kind: &'static str,
    when: When,
    place: &str,
    change: impl Fn(&mut Value, &str),
) -> (usize, Vec<String>) {
    let (mut played, mut wrong) = (0, Vec::new());
    // With an existing server, each life takes longer.
    let texts = match when {
        When::Before => &HOSTILE[..],
        When::Bought => &HOSTILE[..4],
    };
    for text in texts {
        let sent = life(kind, when, |object| change(object, text));
        if !sent.was_decodable {
            continue; // the operator reports it and leaves it alone
        }
        played += 1;
        let strays = sent.to_apiserver.iter().filter(|line| strays(line));
        let astray = sent.to_service.iter().filter(|url| is_astray(url));
        let all: BTreeSet<&String> = strays.chain(astray).collect();
        wrong.extend(
            all.iter()
                .map(|line| format!("{place} = {text:?}, {when:?}: {line}")),
        );
    }
    (played, wrong)
}

fn fields(kind: &'static str, schema: &Value) -> (usize, Vec<String>) {
    let (mut found, mut played, mut wrong) = (Vec::new(), 0, Vec::new());
    strings(schema, &[], &mut found);
    for path in found {
        let whens: &[When] = match path[0].as_str() {
            "spec" => &[When::Before, When::Bought],
            "status" => &[When::Bought],
            _ => continue, // apiVersion and kind
        };
        for when in whens {
            let done = play(kind, *when, &path.join("."), |object, text| {
                put(object, schema, &path, text, 0);
            });
            played += done.0;
            wrong.extend(done.1);
        }
    }
    (played, wrong)
}

#[test]
fn no_string_of_an_instance_changes_the_path_of_a_request() {
    let (played, wrong) = fields(INSTANCES, &schema(&Instance::crd()));
    println!("HOSTILE: {played} lives of an Instance");
    assert!(played > 300, "{played}");
    assert!(wrong.is_empty(), "{} times: {wrong:#?}", wrong.len());
}

#[test]
fn no_string_of_an_account_changes_the_path_of_a_request() {
    let (played, wrong) = fields(ACCOUNTS, &schema(&Account::crd()));
    println!("HOSTILE: {played} lives of an Account");
    assert!(played > 150, "{played}");
    assert!(wrong.is_empty(), "{} times: {wrong:#?}", wrong.len());
}

#[test]
fn no_string_of_a_record_changes_the_path_of_a_request() {
    // A record as the operator itself writes it.
    let record = |object: &Value| -> Value {
        let text = object["metadata"]["annotations"][BINDING].as_str();
        serde_json::from_str(text.unwrap_or_default()).unwrap_or_default()
    };
    let pointers = std::cell::RefCell::new(BTreeSet::new());
    life(INSTANCES, When::Bought, |object| {
        leaves(&record(object), "", &mut pointers.borrow_mut());
    });
    let (pointers, mut wrong) = (pointers.into_inner(), Vec::new());
    assert!(pointers.len() > 12, "{pointers:?}");
    for pointer in &pointers {
        let done = play(INSTANCES, When::Bought, pointer, |object, text| {
            let mut record = record(object);
            if let Some(leaf) = record.pointer_mut(pointer) {
                *leaf = json!(text);
            }
            object["metadata"]["annotations"][BINDING] = json!(record.to_string());
        });
        wrong.extend(done.1);
    }
    assert!(wrong.is_empty(), "{} times: {wrong:#?}", wrong.len());
}

/// The paths of the strings in a value.
fn leaves(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::String(_) => {
            found.insert(at.to_owned());
        }
        Value::Object(fields) => {
            for (field, inner) in fields {
                leaves(inner, &format!("{at}/{field}"), found);
            }
        }
        Value::Array(items) => {
            for (number, inner) in items.iter().enumerate() {
                leaves(inner, &format!("{at}/{number}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn requests_outside_the_allowed_paths_are_noticed() {
    for line in [
        "GET /api/v1/namespaces/team-a/secrets/../../victim/secrets/x",
        "GET /api/v1/namespaces/team-a/secrets/?limit=1",
        "GET /api/v1/namespaces/team-a/secrets/login?watch=true",
        "GET /api/v1/namespaces/team-b/secrets/login",
        "PATCH /api/v1/namespaces/team-a/configmaps/login?&fieldManager=cloud-server-operator",
        "GET /api/v1/namespaces/team-a/secrets/login%2f..",
    ] {
        assert!(strays(line), "{line}");
    }
    assert!(!strays("GET /api/v1/namespaces/team-a/secrets/login"));
    assert!(!strays("GET /api/v1/namespaces/team-a/configmaps/ca"));
    assert!(!strays(
        "PATCH /apis/cloudserver.dev/v1alpha1/namespaces/team-a/instances/web/status?&fieldManager=cloud-server-operator"
    ));
    for url in [
        "https://cloud.example/instance/detail",
        "https://cloud.example/api/instance/delete",
        "https://cloud.example/api/instance/detail?admin=1",
        "https://cloud.example/api/instance/detail#x",
    ] {
        assert!(is_astray(url), "{url}");
    }
    assert!(is_astray("https://evil.example/api/instance/detail"));
    assert!(!is_astray(
        "https://cloud.example/api/instance/detail?ecsResourceUUID=..%2F"
    ));
}
