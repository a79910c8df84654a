use proptest::prelude::*;
use serde_json::json;

use super::super::cloud_call::CloudCall;
use super::*;

const LIST: &str = "instances";

/// The result of decoding a body.
#[derive(Debug, PartialEq)]
struct Read {
    body: Map<String, Value>,
    listed: bool,
    rows: Vec<Value>,
}

/// Decodes a body that arrives in pieces of these sizes, repeated cyclically, and checks the memory held meanwhile.
fn read(body: &[u8], sizes: &[usize], bounds: Bounds) -> Result<Read, Unfit> {
    let mut decoder = Decoder::new(bounds);
    let mut rows = Vec::new();
    let most = bounds.rest + bounds.list.map_or(0, |list| list.row);
    let mut take = |row: &[u8]| {
        rows.push(serde_json::from_slice(row).map_err(|_| NO_ROW)?);
        Ok(())
    };
    let mut left = body;
    for size in sizes.iter().cycle() {
        if left.is_empty() {
            break;
        }
        let (piece, after) = left.split_at(left.len().min((*size).max(1)));
        let taken = decoder.push(piece, &mut take);
        assert!(decoder.held() <= most, "{} of {most}", decoder.held());
        taken?;
        left = after;
    }
    let Decoded { body, listed } = decoder.finish()?;
    Ok(Read { body, listed, rows })
}

fn page(body: &str) -> Result<Read, Unfit> {
    read(body.as_bytes(), &[3], Bounds::of(CloudCall::Instances))
}

/// The same result by serde_json alone.
fn whole(body: &[u8]) -> Option<Read> {
    let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let rows = match body.get_mut(LIST) {
        Some(Value::Array(rows)) => Some(std::mem::take(rows)),
        _ => None,
    };
    Some(Read {
        body,
        listed: rows.is_some(),
        rows: rows.unwrap_or_default(),
    })
}

#[test]
fn rows_and_other_fields_are_decoded_as_from_the_whole_body() {
    let texts = [
        r#"{"instances":[]}"#,
        r#" { "instances" : [ ] , "rowCount" : 0 } "#,
        r#"{"rowCount":2,"instances":[{"a":"]},\"["},{"b":[1,[2]]}],"success":true}"#,
        r#"{"instances":[1,"x",null,[],{}]}"#,
        r#"{"inst\u0061nces":[{"a":1}]}"#,
        r#"{"instances":null}"#,
        r#"{"instances":{"instances":[1]}}"#,
        r#"{"other":[{"instances":[1,2]}],"instances":[3]}"#,
        r#"{"a":"instances","b":[1]}"#,
        r#"{"\\":"\\","instances":["\\"]}"#,
    ];
    for text in texts {
        assert_eq!(page(text).ok(), whole(text.as_bytes()), "{text}");
        assert!(whole(text.as_bytes()).is_some(), "{text}");
    }
}

#[test]
fn a_body_with_any_invalid_part_is_rejected() {
    for text in [
        "",
        " ",
        "null",
        "[]",
        "{",
        "}",
        "{}}",
        "{}{}",
        "]",
        r#"{"instances":["#,
        r#"{"instances":[1"#,
        r#"{"instances":[1}"#,
        r#"{"instances":[1,]}"#,
        r#"{"instances":[,1]}"#,
        r#"{"instances":[,]}"#,
        r#"{"instances":[1,,2]}"#,
        r#"{"instances":[1 2]}"#,
        r#"{"instances":[}]}"#,
        r#"{"instances":[{]}}"#,
        r#"{"instances":[1]"#,
        r#"{"instances":[1]]}"#,
        r#"{"instances":[1]}x"#,
        r#"{"instances"[1]}"#,
        r#"{"instances":[tr ue]}"#,
        r#"{"instances":["a]}"#,
        r#"{"instances":[1],}"#,
        r#"{"x":1 2}"#,
        "{\"x\":\"\u{1}\"}",
    ] {
        assert!(page(text).is_err(), "{text}");
    }
    // It would be ambiguous which of the two lists counts.
    let twice = r#"{"instances":[1],"instances":[2]}"#;
    let unfit = Unfit::Malformed("it carries its list twice");
    assert_eq!(page(twice), Err(unfit));
}

#[test]
fn each_limit_is_exact_to_the_byte() {
    let bounds = Bounds::of(CloudCall::Instances);
    let list = bounds.list.unwrap();
    let row = |length: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(length - 8));
    let body = |rows: &[String]| format!(r#"{{"instances":[{}]}}"#, rows.join(","));
    let read = |body: String| read(body.as_bytes(), &[1_000], bounds).map(|read| read.rows.len());
    assert_eq!(read(body(&[row(list.row)])), Ok(1));
    assert_eq!(
        read(body(&[row(list.row + 1)])),
        Err(ExceededBound::Row(list.row).into())
    );
    let many = |rows| vec!["1".to_owned(); rows];
    assert_eq!(read(body(&many(list.rows))), Ok(list.rows));
    assert_eq!(
        read(body(&many(list.rows + 1))),
        Err(ExceededBound::Rows(list.rows).into())
    );
    // The name, its quotes and the braces take ten bytes.
    let rest = |length: usize| format!(r#"{{"abc":"{}"}}"#, "x".repeat(length - 10));
    assert_eq!(read(rest(bounds.rest)), Ok(0));
    let excess = ExceededBound::Rest(bounds.rest);
    assert_eq!(read(rest(bounds.rest + 1)), Err(excess.into()));
    let spaces = |length: usize| format!("{{{}}}", " ".repeat(length - 2));
    assert_eq!(read(spaces(bounds.body)), Ok(0));
    let excess = ExceededBound::Body(bounds.body);
    assert_eq!(read(spaces(bounds.body + 1)), Err(excess.into()));
    let nested = |levels: usize| {
        let levels = levels - 1;
        format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
    };
    assert_eq!(read(nested(bounds.depth)), Ok(0));
    let excess = ExceededBound::Depth(bounds.depth);
    assert_eq!(read(nested(bounds.depth + 1)), Err(excess.into()));
}

#[test]
fn a_server_with_all_specified_and_additional_fields_is_within_the_limits() {
    let disk = json!({"dataDiskResourceUUID": "disk-0123456789abcdef", "dataDiskCategory": "LOCAL_SSD",
        "dataDiskSize": 100, "snapshotNum": 3});
    let address = json!({"publicIpResourceUUID": "eip-0123456789abcdef", "publicIpAddress": "203.0.113.255", "bandwidth": 100});
    let mut instance: Map<String, Value> = (0..60)
        .map(|n| {
            (
                format!("someFieldOfIt{n}"),
                json!("a value of forty letters, which is a lot"),
            )
        })
        .collect();
    instance.insert("dataDiskInfoList".to_owned(), vec![disk; 16].into());
    instance.insert(
        "secondaryPublicIpInfoList".to_owned(),
        vec![address; 16].into(),
    );
    let body = json!({"instance": instance, "httpStatus": 202, "success": true}).to_string();
    let detail = read(body.as_bytes(), &[100], Bounds::of(CloudCall::Detail));
    assert!(detail.is_ok(), "{detail:?} of {} bytes", body.len());
    let rows = vec![Value::Object(instance); 50];
    let body = json!({"instances": rows, "rowCount": 50}).to_string();
    let page = read(body.as_bytes(), &[1_000], Bounds::of(CloudCall::Instances));
    assert_eq!(page.unwrap().rows.len(), 50, "of {} bytes", body.len());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ \\[\\]{},:\"\\\\\u{e9}a-z]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            fields(inner).prop_map(Value::Object),
        ]
    })
}

fn fields(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let name = prop_oneof!["[a-c\"\\\\]{0,3}", Just(LIST.to_owned())];
    proptest::collection::vec((name, value), 0..6).prop_map(Map::from_iter)
}

/// Bytes that are nearly JSON.
fn almost_json() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        8 => proptest::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", " ", "\n", "1", "true", "\"a\"", "\"instances\":[", "\"instances\"",
            "{\"instances\":[", "\u{e9}", "[[[[[[", "{\"a\":", "\\u0061",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ];
    proptest::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_body_may_be_split_anywhere(
        body in fields(value()), pretty in any::<bool>(), sizes in proptest::collection::vec(1..40usize, 1..5),
    ) {
        let text = if pretty { serde_json::to_vec_pretty(&body) } else { serde_json::to_vec(&body) }.unwrap();
        let read = read(&text, &sizes, Bounds::of(CloudCall::Instances));
        prop_assert_eq!(read.unwrap(), whole(&text).unwrap());
    }

    #[test]
    fn any_bytes_are_decoded_as_by_serde_json_or_exceed_a_limit(
        body in almost_json(), sizes in proptest::collection::vec(1..40usize, 1..5),
    ) {
        let bounds = Bounds { rest: 128, decoded: 8_192, depth: 6, ..Bounds::of(CloudCall::Instances) };
        let bounds = Bounds { list: Some(ListBounds { row: 64, rows: 5, ..bounds.list.unwrap() }), ..bounds };
        match read(&body, &sizes, bounds) {
            Ok(read) => prop_assert_eq!(Some(read), whole(&body)),
            Err(Unfit::Malformed("it carries its list twice")) => {}
            Err(Unfit::Malformed(_)) => prop_assert_eq!(whole(&body), None),
            Err(Unfit::Excess(_)) => {}
            Err(Unfit::NoMemory(_)) => prop_assert!(false, "nothing is kept here"),
        }
    }
}
