//! The page for people, in a real browser. The tests drive chromedriver by the WebDriver protocol, which is JSON over HTTP.

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

use common::{Caller, answer, quick, settle};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// How long the page may take to show a change; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a driver is started that ends without a port.
const DRIVER_STARTS: u32 = 5;

/// A driver and its browser. Dropping this ends both.
struct Browser {
    driver: Child,
    http: reqwest::Client,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends when the pipe between the two closes, however the driver ended.
        let id = self.driver.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// Starts chromedriver and returns it with its port.
    ///
    /// The driver takes a free port of IPv4 and then the same port of IPv6. It ends when another process, such as the
    /// driver of another test, took that one in between: start it again.
    fn start_driver() -> (Child, u16) {
        let mut output = Vec::new();
        for _ in 0..DRIVER_STARTS {
            let driver = Command::new("setpriv")
                .args(["--pdeathsig=TERM", "chromedriver", "--port=0"])
                .stdout(Stdio::piped())
                .spawn();
            let mut driver = driver
                .expect("chromedriver does not start: apt-get install chromium chromium-driver");
            let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
            let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
                let port = line
                    .split_once("started successfully on port ")
                    .and_then(|(_, port)| port.trim_end_matches('.').parse::<u16>().ok());
                output.push(line);
                port
            });
            if let Some(port) = port {
                // Drain further output, so that it cannot fill the pipe.
                std::thread::spawn(move || lines.for_each(drop));
                return (driver, port);
            }
            output.push(format!("{:?}", driver.wait()));
        }
        panic!("chromedriver reports no port: {}", output.join("\n"));
    }

    async fn open(url: &str) -> Self {
        let (driver, port) = Self::start_driver();
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

    /// Waits until an element's text contains these words.
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

    /// The first button with this text.
    async fn button(&self, text: &str) -> Value {
        let path = format!("//button[text()='{text}']");
        let found = self
            .ask("/elements", &json!({"using": "xpath", "value": path}))
            .await;
        assert!(found[0].is_object(), "no button {text}");
        found[0].clone()
    }

    /// Clicks the first button with this text, as a user does.
    async fn click(&self, text: &str) {
        let button = self.button(text).await;
        let element = button.as_object().unwrap().values().next().unwrap();
        let path = format!("/element/{}/click", element.as_str().unwrap());
        self.ask(&path, &json!({})).await;
    }

    /// Performs these pointer actions. The mouse then stays in its last state.
    async fn mouse(&self, acts: &[Value]) {
        let mouse = json!({"type": "pointer", "id": "mouse", "actions": acts});
        self.ask("/actions", &json!({"actions": [mouse]})).await;
    }

    /// Presses the button, and keeps it pressed.
    async fn hold(&self, text: &str) {
        let button = self.button(text).await;
        let there = json!({"type": "pointerMove", "duration": 0, "origin": button, "x": 0, "y": 0});
        self.mouse(&[there, json!({"type": "pointerDown", "button": 0})])
            .await;
    }

    async fn release_button(&self) {
        self.mouse(&[json!({"type": "pointerUp", "button": 0})])
            .await;
    }

    /// How many elements match a selector.
    async fn count(&self, selector: &str) -> usize {
        let script = format!("String(document.querySelectorAll('{selector}').length)");
        self.text(&script).await.parse().unwrap()
    }
}

/// Asserts that the page loads nothing from elsewhere, shows no secret, shows no error, and that its script never fails.
async fn is_of_this_port_and_well(browser: &Browser, url: &str, secret: &str) {
    let loaded = browser
        .text("JSON.stringify(performance.getEntriesByType('resource').map(of => of.name))")
        .await;
    let loaded: Vec<String> = serde_json::from_str(&loaded).unwrap();
    assert!(
        !loaded.is_empty() && loaded.iter().all(|of| of.starts_with(url)),
        "{loaded:?}"
    );
    let page = browser.text("document.documentElement.outerHTML").await;
    assert!(!page.contains(secret));
    for alert in ["unanswered", "trouble"] {
        let script = format!("document.getElementById('{alert}').innerText");
        assert_eq!(browser.text(&script).await, "", "{alert}");
    }
    let log = browser.ask("/se/log", &json!({"type": "browser"})).await;
    let failures: Vec<&Value> = log
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["level"] == "SEVERE")
        .collect();
    // The icon that every browser requests.
    assert!(
        failures.iter().all(|line| line["message"]
            .as_str()
            .unwrap_or_default()
            .contains("favicon")),
        "{failures:?}"
    );
}

#[tokio::test]
async fn the_page_shows_servers_tasks_and_ledger_as_they_change_and_sets_faults() {
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

    is_of_this_port_and_well(&browser, url, sim.token()).await;
}

#[tokio::test]
async fn a_press_that_is_held_during_a_refresh_of_the_page_is_a_click() {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let sim = quick().control(free).start().await.unwrap();
    let url = sim.control_url().unwrap();
    let console = Caller::new(url, "");
    let browser = Browser::open(url).await;
    let (server, _) = Caller::of(&sim).create("web-1").await;
    browser.shows("servers", "STARTED").await;

    browser.hold("release").await;
    // The row has changed, and was drawn again.
    let rename = json!({"action": "rename", "server": server, "name": "web-2"});
    assert_eq!(console.post("/console", &rename).await.status, 200);
    browser.shows("servers", "web-2").await;
    assert_eq!(sim.live_servers().len(), 1, "released before it is let go");
    browser.release_button().await;
    browser.shows("summary", "0 servers live, 1 released").await;
    let entries = browser.shows("entries", "released").await;
    let releases = entries.matches(&format!("released {server}")).count();
    assert_eq!(releases, 1, "{entries}");
    is_of_this_port_and_well(&browser, url, sim.token()).await;
}

#[tokio::test]
async fn the_reason_of_a_refused_click_is_shown_until_the_next_click() {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let sim = quick().control(free).start().await.unwrap();
    let service = Caller::of(&sim);
    let browser = Browser::open(sim.control_url().unwrap()).await;
    let (server, _) = service.create("web-1").await;
    browser.shows("servers", "STARTED").await;
    // The server is gone by the time of the click, and the page has had no time to notice.
    let release = json!({"action": "release", "server": server}).to_string();
    let script = format!(
        "(() => {{
            const released = new XMLHttpRequest();
            released.open('POST', '/console', false);
            released.setRequestHeader('Content-Type', 'application/json');
            released.send('{release}');
            document.querySelector('#servers button').click();
            return String(released.status);
        }})()"
    );
    assert_eq!(browser.text(&script).await, "200");
    let refusal =
        format!("POST /console: 422 {{\"error\":\"the console knows no server {server}\"}}");
    browser.shows("trouble", &refusal).await;
    for name in ["web-2", "web-3"] {
        service.create(name).await;
        browser.shows("servers", name).await;
    }
    browser.shows("trouble", &refusal).await;
    browser.click("Clear all").await;
    let until = Instant::now() + PATIENCE;
    while browser.count("#trouble:not(:empty)").await > 0 {
        assert!(Instant::now() < until, "the message of another click stays");
        sleep(Duration::from_millis(100)).await;
    }
}

/// The maximum number of rows in a table of the page.
const SHOWN: usize = 60;

#[tokio::test]
async fn the_newest_part_of_a_long_history_is_read_and_shown() {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let sim = quick().control(free).start().await.unwrap();
    let service = Caller::of(&sim);
    let url = sim.control_url().unwrap();
    let (first, _) = service.create("web-1").await;
    let mut last = first.clone();
    for _ in 0..SHOWN {
        (last, _) = service.create("web-2").await;
    }
    settle(&sim).await;
    let control = Caller::new(url, "");
    let release = json!({"action": "release", "server": first});
    assert_eq!(control.post("/console", &release).await.status, 200);

    let newest = control.get("/servers", &[("limit", "1")]).await.body;
    assert_eq!(newest["counts"], json!({"live": SHOWN, "released": 1}));
    assert_eq!(newest["servers"].as_array().unwrap().len(), 1);
    assert_eq!(newest["servers"][0]["id"], json!(last));
    let whole = control.get("/servers", &[("limit", "1000")]).await.body;
    assert_eq!(whole["servers"].as_array().unwrap().len(), SHOWN + 1);
    let query = [("effects", "true"), ("limit", "2")];
    let ledger = control.get("/ledger", &query).await.body;
    let entries = ledger["entries"].as_array().unwrap();
    let kinds: Vec<&Value> = entries.iter().map(|of| &of["effect"]["kind"]).collect();
    assert_eq!(kinds, ["deployed", "released"]);
    assert_eq!(ledger["lastSeq"], entries[1]["seq"]);

    let browser = Browser::open(url).await;
    let summary = format!("{SHOWN} servers live, 1 released");
    browser.shows("summary", &summary).await;
    let entries = browser.shows("entries", &format!("released {first}")).await;
    assert!(!entries.contains(&format!("created {first}")), "{entries}");
    for rows in ["#servers tr", "#tasks tr", "#entries tr"] {
        assert_eq!(browser.count(rows).await, SHOWN, "{rows}");
    }
    is_of_this_port_and_well(&browser, url, sim.token()).await;
}
