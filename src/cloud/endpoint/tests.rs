use super::*;
use proptest::prelude::*;

fn pattern(text: &str) -> EndpointPattern {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Whether the endpoint is valid and allowed.
fn allows(allowed: &str, endpoint: &str) -> bool {
    let allowed = AllowedEndpoints::from(vec![pattern(allowed)]);
    check_endpoint(endpoint).is_ok_and(|endpoint| allowed.allow(&endpoint))
}

#[test]
fn an_endpoint_is_allowed_in_every_spelling() {
    for (allowed, endpoint) in [
        ("https://cloud.example/api", "https://cloud.example/api"),
        ("https://cloud.example/api", "https://cloud.example/api/"),
        ("https://cloud.example/api/", "https://cloud.example/api"),
        ("https://cloud.example/api", "https://cloud.example/api/v2"),
        ("https://cloud.example/api", "https://cloud.example:443/api"),
        ("https://cloud.example:443/api", "https://cloud.example/api"),
        ("https://cloud.example/api", "HTTPS://CLOUD.Example/api"),
        ("HTTPS://CLOUD.example/api", "https://cloud.example/api"),
        ("https://cloud.example/api", "https://cloud.example./api"),
        ("https://cloud.example./api", "https://cloud.example/api"),
        (
            "https://cloud.example/api",
            "https://cloud.example/x/../api",
        ),
        ("https://cloud.example/api", "https://cloud.example/%2e/api"),
        ("https://cloud.example", "https://cloud.example"),
        ("https://cloud.example", "https://cloud.example/api"),
        ("cloud.example", "https://cloud.example/api"),
        ("cloud.example:8443", "https://cloud.example:8443"),
        ("http://cloud.example:*", "http://cloud.example:8080/api"),
        ("*.cloud.example", "https://eu.cloud.example/api"),
        ("*.cloud.example", "https://a.eu.cloud.example"),
        ("*.Cloud.Example/api", "https://eu.cloud.example./api"),
        ("https://*.cloud.example:*", "https://eu.cloud.example:8443"),
        ("https://xn--e1aybc.example", "https://тест.example"),
        ("https://тест.example", "https://XN--E1AYBC.example"),
        ("https://[::1]:8443", "https://[0:0:0:0:0:0:0:1]:8443/api"),
        ("[2001:DB8::1]:8443", "https://[2001:db8:0::0001]:8443/api"),
        ("http://[2001:db8:0::1]:*", "http://[2001:DB8::1]:8080"),
        ("[64:ff9b::c000:201]", "https://[64:ff9b::192.0.2.1]/api"),
        ("http://127.0.0.1:8090", "http://0x7f.1:8090/api"),
        ("https://cloud.example/%C3%A4", "https://cloud.example/ä/v2"),
        ("https://cloud.example/a%2Fb", "https://cloud.example/a%2Fb"),
    ] {
        assert!(allows(allowed, endpoint), "{allowed} and {endpoint}");
    }
}

#[test]
fn an_endpoint_that_only_resembles_an_allowed_one_is_denied() {
    for (allowed, endpoint) in [
        ("https://cloud.example", "https://cloud.example.evil.com"),
        ("https://cloud.example", "https://cloud.example@evil"),
        ("https://cloud.example", "https://cloud.example:x@evil"),
        ("https://cloud.example", "https://evil/cloud.example"),
        ("https://cloud.example", "https://evil\\@cloud.example"),
        ("https://cloud.example", "https://evil\\.cloud.example"),
        ("https://cloud.example", "https://evilcloud.example"),
        ("https://cloud.example", "https://eu.cloud.example"),
        ("https://cloud.example", "http://cloud.example"),
        ("https://cloud.example", "https://cloud.example:8443"),
        ("https://cloud.example", "https://cloud.example.."),
        ("https://cloud.example", "https://cl\u{f6}ud.example"),
        ("https://cloud.example", "https://cloud\u{2024}example.evil"),
        ("http://cloud.example", "https://cloud.example"),
        ("https://cloud.example/api", "https://cloud.example"),
        ("https://cloud.example/api", "https://cloud.example/apis"),
        ("https://cloud.example/api", "https://cloud.example/API"),
        (
            "https://cloud.example/api",
            "https://cloud.example/api/../x",
        ),
        (
            "https://cloud.example/api",
            "https://cloud.example/api/%2e%2E/x",
        ),
        (
            "https://cloud.example/api",
            "https://cloud.example/api/.%2e/x",
        ),
        ("https://cloud.example/api", "https://cloud.example/api%2Fx"),
        (
            "https://cloud.example/api",
            "https://cloud.example/api/..%2fx",
        ),
        (
            "https://cloud.example/api",
            "https://cloud.example/api/..%5cx",
        ),
        (
            "https://cloud.example/api",
            "https://cloud.example/api/%252e%252e/x",
        ),
        (
            "https://cloud.example/api",
            "https://cloud.example/api/..;/x",
        ),
        (
            "https://cloud.example/api",
            "https://cloud.example/api/.../x",
        ),
        ("https://cloud.example/api", "https://cloud.example/api//x"),
        ("https://cloud.example/api", "https://cloud.example//api"),
        ("https://cloud.example/api", "https://cloud.example/api?x"),
        ("https://cloud.example/api", "https://cloud.example/api#x"),
        (
            "https://cloud.example/%C3%A4",
            "https://cloud.example/%c3%a4",
        ),
        ("*.cloud.example", "https://cloud.example"),
        ("*.cloud.example", "https://.cloud.example"),
        ("*.cloud.example", "https://evilcloud.example"),
        ("*.cloud.example", "http://eu.cloud.example"),
        ("*.cloud.example", "https://eu.cloud.example:8443"),
        ("*.cloud.example", "https://eu.cloud.example.evil.com"),
        ("*.cloud.example/api", "https://eu.cloud.example/other"),
        ("*.1", "https://10.0.0.1"),
        ("http://127.0.0.1", "http://127.0.0.2"),
        ("http://127.0.0.1", "http://[::ffff:127.0.0.1]"),
        ("http://127.0.0.1", "http://127.0.0.1.evil.com"),
        ("http://[::1]", "http://[::2]"),
    ] {
        let is_pattern = allowed.parse::<EndpointPattern>().is_ok();
        assert!(
            !is_pattern || !allows(allowed, endpoint),
            "{allowed} and {endpoint}"
        );
    }
}

#[test]
fn an_invalid_pattern_is_refused_and_not_quoted() {
    for text in [
        "",
        "*",
        "*.",
        "*.127.0.0.1",
        "*.[::1]",
        "cl*ud.example",
        "*cloud.example",
        "a.*.example",
        "https://cloud.example/*",
        "https://user:pa55@cloud.example",
        "https://cloud.example?x",
        "https://cloud.example#x",
        "https://cloud.example\\x",
        "https://cloud.example/a'b",
        "https://cloud.example x",
        "https://",
        "https:/cloud.example",
        "https:cloud.example",
        "ftp://cloud.example",
        "https://cloud.example:99999",
        "https://cloud.example:**",
        "2001:db8::1",
        "https://2001:db8::1:443/api",
    ] {
        let error = text.parse::<EndpointPattern>().err();
        let message = error.unwrap_or_else(|| panic!("{text} was taken"));
        let message = message.to_string();
        assert!(message.contains("write it as"), "{message}");
        assert!(!message.contains("pa55"), "{message}");
    }
}

#[test]
fn without_a_pattern_every_endpoint_is_allowed_and_no_host_is_named() {
    let none = AllowedEndpoints::default();
    assert!(none.allow(&Url::parse("https://cloud.example").unwrap()));
    assert!(!none.name_host_of(&Url::parse("https://cloud.example").unwrap()));
}

#[test]
fn a_host_is_matched_by_itself_and_not_by_its_domain() {
    let patterns = [
        "http://127.0.0.1:8090/api",
        "http://[fe80::1]",
        "*.cloud.example",
        "https://Localhost:*",
    ];
    let allowed = AllowedEndpoints::from(patterns.map(pattern).to_vec());
    let names = |url: &str| allowed.name_host_of(&Url::parse(url).unwrap());
    for named in [
        "http://127.0.0.1:8090/api/v1",
        "http://[fe80::1]",
        "http://[fe80:0::1]/",
        "https://localhost:8443",
        "https://LOCALHOST.",
    ] {
        assert!(names(named), "{named}");
    }
    for other in [
        "http://127.0.0.2:8090/api",
        "http://127.0.0.1/api",
        "http://127.0.0.1:8090/other",
        "http://[::1]",
        "https://eu.cloud.example",
        "https://cloud.example",
    ] {
        assert!(!names(other), "{other}");
    }
}

/// Pieces of endpoints, and of attacks on URL parsing.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "cloud",
        "example",
        "evil",
        "api",
        "x",
        ".",
        "..",
        "/",
        "//",
        ":",
        "@",
        "\\",
        "%2e",
        "%2F",
        "%5c",
        "%25",
        "%00",
        ";",
        "?",
        "#",
        "*",
        "443",
        "80",
        "8443",
        "[",
        "]",
        "::1",
        "127.0.0.1",
        "0x7f",
        "\t",
        "\n",
        " ",
        "é",
        "。",
        "．",
        "ａ",
        "İ",
        "\u{ad}",
        "-",
        "_",
        "~",
        "https:",
        "http:",
        "HTTPS",
    ];
    prop_oneof![
        8 => proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ]
}

fn soup(before: &'static str, most: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(piece(), 0..most)
        .prop_map(move |pieces| format!("{before}{}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// However the endpoint continues: if a request is made at all, it goes to this host and port, below this path.
    #[test]
    fn a_request_to_an_allowed_endpoint_goes_to_its_host(
        endpoint in prop_oneof![
            soup("https://cloud.example/api", 6), soup("https://cloud.example", 6), soup("https://", 8), soup("", 8),
        ],
    ) {
        let allowed = pattern("https://cloud.example/api");
        if let Ok(url) = check_endpoint(&endpoint) && allowed.matches(&url) {
            // Parsed again from the text of the request, independently of the matcher.
            let mut request = url.clone();
            request.set_path(&format!("{}/instance/list", url.path().trim_end_matches('/')));
            let text = request.as_str();
            prop_assert!(
                text.starts_with("https://cloud.example/api/") || text.starts_with("https://cloud.example./api/"),
                "{endpoint:?}: {text}"
            );
            let rest = text.split_once("/api/").map(|(_, rest)| rest).unwrap_or_default();
            let is_a_way_up = |segment: &str| segment.chars().all(|c| c == '.');
            prop_assert!(!rest.split('/').any(is_a_way_up), "{endpoint:?}: {text}");
            prop_assert!(!rest.contains(['%', ';', '\\', '?', '#', '@']), "{endpoint:?}: {text}");
        }
    }

    /// As above, for a pattern with a wildcard.
    #[test]
    fn a_request_to_a_host_of_a_pattern_stays_below_its_domain(
        endpoint in prop_oneof![soup("https://eu.cloud.example", 6), soup("https://", 8), soup("https://evil", 6)],
    ) {
        let allowed = pattern("*.cloud.example");
        if let Ok(url) = check_endpoint(&endpoint) && allowed.matches(&url) {
            let host = url.host_str().unwrap_or_default();
            prop_assert!(
                host.ends_with(".cloud.example") || host.ends_with(".cloud.example."),
                "{endpoint:?}: {host}"
            );
            prop_assert_eq!(url.port_or_known_default(), Some(443));
        }
    }

    /// Any text is either a pattern or an error.
    #[test]
    fn any_text_is_a_pattern_or_an_error(text in soup("", 8), endpoint in soup("https://cloud.example", 6)) {
        if let (Ok(pattern), Ok(url)) = (text.parse::<EndpointPattern>(), check_endpoint(&endpoint)) {
            let _ = pattern.matches(&url);
            let _ = AllowedEndpoints::from(vec![pattern]).name_host_of(&url);
        }
    }

    /// An endpoint that can be written as a pattern allows itself, and every plain path below it.
    #[test]
    fn an_endpoint_allows_itself(
        host in "[a-zA-Z][a-zA-Z0-9-]{0,8}(\\.[a-z]{2,5}){0,2}\\.?", port in proptest::option::of(1_u16..),
        path in "(/[a-z0-9._~-]{1,6}){0,3}/?", below in "(/[a-z0-9]{1,6}){0,2}",
    ) {
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let text = format!("https://{host}{port}{path}");
        let (Ok(pattern), Ok(url)) = (text.parse::<EndpointPattern>(), check_endpoint(&text)) else {
            return Ok(());
        };
        prop_assert!(pattern.matches(&url), "{text}");
        let further = format!("{}{below}", text.trim_end_matches('/'));
        prop_assert!(pattern.matches(&check_endpoint(&further).unwrap()), "{further}");
    }
}
