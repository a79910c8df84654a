//! The page for people, in a real browser: chromedriver is asked by the WebDriver protocol, which is JSON over HTTP.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Caller, answer, quick};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// How long a page may take to show what was done; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A driver and its browser; both end with it.
struct Browser {
    driver: Child,
    http: reqwest::Client,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends when the pipe between them does, however the driver ended.
        let id = self.driver.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.driver.wait();
    }
}

impl Browser {
    async fn open(url: &str) -> Self {
        let driver = Command::new("setpriv")
            .args(["--pdeathsig=TERM", "chromedriver", "--port=0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver =
            driver.expect("chromedriver does not start: apt-get install chromium chromium-driver");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let port =
            port.expect("chromedriver tells no port: apt-get install chromium chromium-driver");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self {
            driver,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            session: format!("http://127.0.0.1:{port}/session"),
        };
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--no-proxy-server",
            "--remote-debugging-pipe",
        ];
        let options = json!({"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}});
        let made = browser
            .ask("", &json!({"capabilities": {"alwaysMatch": options}}))
            .await;
        browser.session = format!(
            "{}/{}",
            browser.session,
            made["sessionId"].as_str().unwrap()
        );
        browser.ask("/url", &json!({"url": url})).await;
        browser
    }

    async fn ask(&self, path: &str, body: &Value) -> Value {
        let sent = self
            .http
            .post(format!("{}{path}", self.session))
            .json(body)
            .send();
        let answer: Value = sent.await.unwrap().json().await.unwrap();
        let value = answer["value"].clone();
        assert!(value["error"].is_null(), "{path} {body}: {value}");
        value
    }

    async fn text(&self, script: &str) -> String {
        let body = json!({"script": format!("return {script}"), "args": []});
        self.ask("/execute/sync", &body)
            .await
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until an element's text has these words.
    async fn shows(&self, id: &str, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = self
                .text(&format!("document.getElementById('{id}').innerText"))
                .await;
            if text.contains(words) {
                return text;
            }
            assert!(
                Instant::now() < until,
                "{words:?} does not show in {id}: {text}"
            );
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Clicks the first button with this text, as a person does.
    async fn click(&self, text: &str) {
        let path = format!("//button[text()='{text}']");
        // Rows are drawn anew while it is looked for.
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self
                .ask("/elements", &json!({"using": "xpath", "value": path}))
                .await;
            let element = found[0]
                .as_object()
                .and_then(|of| of.values().next())
                .and_then(Value::as_str);
            let element = element.unwrap_or_else(|| panic!("no button {text}"));
            let sent = self
                .http
                .post(format!("{}/element/{element}/click", self.session));
            let answer: Value = sent
                .json(&json!({}))
                .send()
                .await
                .unwrap()
                .json()
                .await
                .unwrap();
            match answer["value"]["error"].as_str() {
                None => return,
                Some(error) => assert!(
                    error.starts_with("stale") && Instant::now() < until,
                    "{text}: {answer}"
                ),
            }
        }
    }
}

#[tokio::test]
async fn a_person_sees_servers_tasks_and_ledger_change_and_clicks_faults() {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let sim = quick().control(free).start().await.unwrap();
    let service = Caller::of(&sim);
    let url = sim.control_url().unwrap();
    let browser = Browser::open(url).await;
    browser.shows("summary", "0 servers live").await;
    let (server, task) = service.create("web-1").await;
    browser.shows("servers", "web-1").await;
    browser.shows("servers", "STARTED").await;
    let markup = json!({"action": "rename", "server": server, "name": "<b>web</b>"});
    assert_eq!(
        Caller::new(url, "").post("/console", &markup).await.status,
        200
    );
    browser.shows("servers", "<b>web</b>").await;
    browser.shows("tasks", &task).await;
    browser.shows("tasks", "Succeeded").await;
    browser
        .shows("entries", &format!("deployed {server}"))
        .await;

    browser.click("Fail every call (503)").await;
    browser.shows("faults", "503").await;
    assert_eq!(
        answer(service.getting("/region/list", &[]))
            .await
            .unwrap()
            .status,
        503
    );
    browser.shows("entries", "GET /region/list\t503").await;
    browser.click("Clear all").await;
    browser.shows("faults", "none in force").await;
    assert_eq!(service.get("/region/list", &[]).await.status, 202);

    browser.click("release").await;
    browser.shows("summary", "0 servers live, 1 released").await;
    assert!(sim.live_servers().is_empty());

    // Nothing of it comes from elsewhere, no secret is on it, and its script never fails.
    let loaded = browser
        .text("JSON.stringify(performance.getEntriesByType('resource').map(of => of.name))")
        .await;
    let loaded: Vec<String> = serde_json::from_str(&loaded).unwrap();
    assert!(
        !loaded.is_empty() && loaded.iter().all(|of| of.starts_with(url)),
        "{loaded:?}"
    );
    let page = browser.text("document.documentElement.outerHTML").await;
    assert!(!page.contains(sim.token()));
    assert_eq!(
        browser
            .text("document.getElementById('trouble').innerText")
            .await,
        ""
    );
    let log = browser.ask("/se/log", &json!({"type": "browser"})).await;
    let failures: Vec<&Value> = log
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["level"] == "SEVERE")
        .collect();
    // The icon that every browser asks for.
    assert!(
        failures.iter().all(|line| line["message"]
            .as_str()
            .unwrap_or_default()
            .contains("favicon")),
        "{failures:?}"
    );
}
