//! A plain HTTP caller for the tests, so that no client code of the operator is involved.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unreachable_pub, reason = "shared by the test files that include it")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use cloud_simulator::{Builder, Simulator, catalogue};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

/// Long enough for a machine that stalls for most of a minute. In the normal case no test waits this long.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// Longer than any test: a task with this duration still runs at every check.
pub const ENDLESS: Duration = Duration::from_secs(3600);

pub const PASSWORD: &str = "Canary1!secret";

#[derive(Clone)]
pub struct Caller {
    pub http: Client,
    pub url: String,
    pub token: String,
}

/// An answer: status and body.
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Caller {
    pub fn new(url: &str, token: &str) -> Self {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        Self {
            http: Client::new(),
            url: url.to_owned(),
            token: token.to_owned(),
        }
    }

    pub fn of(sim: &Simulator) -> Self {
        Self::new(sim.url(), sim.token())
    }

    pub fn with_token(&self, token: &str) -> Self {
        Self {
            token: token.to_owned(),
            ..self.clone()
        }
    }

    pub fn getting(&self, path: &str, query: &[(&str, &str)]) -> RequestBuilder {
        let url = format!("{}{path}", self.url);
        self.http
            .get(url)
            .query(query)
            .header("x-open-token", &self.token)
    }

    pub fn posting(&self, path: &str, body: &Value) -> RequestBuilder {
        let url = format!("{}{path}", self.url);
        self.http
            .post(url)
            .json(body)
            .header("x-open-token", &self.token)
    }

    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Answer {
        answer(self.getting(path, query)).await.unwrap()
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        answer(self.posting(path, body)).await.unwrap()
    }

    /// Creates a server; returns its identifier and its task.
    pub async fn create(&self, name: &str) -> (String, String) {
        let answer = self.post("/instance/create", &create_body(name)).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        let info = &answer.body["asyncTaskInfo"];
        (text(&info["ecsResourceUUID"]), text(&info["asyncTaskUUID"]))
    }
}

pub async fn answer(request: RequestBuilder) -> reqwest::Result<Answer> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    Ok(Answer {
        status,
        body: response.json().await?,
    })
}

pub fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}

pub fn create_body(name: &str) -> Value {
    let known = catalogue::example();
    json!({ "packageConfig": {
        "packageCode": known.package,
        "regionCode": known.region,
        "zoneCode": known.zone,
        "instanceName": name,
        "imageResourceUUID": known.image,
        "sshKeyUUID": null,
        "firewallUUID": known.firewall,
        "password": PASSWORD,
    }})
}

pub fn quick() -> Builder {
    Simulator::builder().task_duration(Duration::from_millis(20))
}

/// The sorted names of an object's fields.
pub fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names
}

/// Waits until no task runs.
pub async fn settle(sim: &Simulator) {
    sim.wait_until(|world| world.next_due().is_none(), DEADLINE)
        .await
        .unwrap();
}
