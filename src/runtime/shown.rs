//! An object as a watch shows it.
//!
//! Its text is at hand while it is decoded. What nobody here reads is left out first (two fifths of an Instance): the text is
//! put together anew from its other parts, each as it stands. That is decoded, and kept. So nothing is made into values to be thrown
//! away, and what is kept is what was decoded.

use super::guarded::Guarded;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// What is watched.
pub trait Watched:
    Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
    /// Which annotations are read: an object may have 256 KiB of others.
    const ANNOTATIONS: &'static [&'static str];
}

/// An object, and the text that it was decoded from. It comes from JSON only, and of an event of a watch as kube-apiserver writes it,
/// its type first.
#[derive(Clone, Debug)]
pub struct Shown<K> {
    pub object: Guarded<K>,
    /// Its JSON, of which [`Guarded::read`] makes the same object.
    pub text: Box<str>,
}

impl<'de, K: Watched> Deserialize<'de> for Shown<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = Box::<RawValue>::deserialize(deserializer)?;
        let text = without_unread(&whole, K::ANNOTATIONS).map_err(D::Error::custom)?;
        let object = Guarded::read(&text).map_err(D::Error::custom)?;
        Ok(Self { object, text })
    }
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// The text of an object without who manages its fields, and without all annotations but these.
fn without_unread(whole: &RawValue, read: &[&str]) -> serde_json::Result<Box<str>> {
    let mut object: Fields<'_> = serde_json::from_str(whole.get())?;
    let metadata = object.remove("metadata");
    let metadata = metadata.map(|metadata| metadata_without_unread(metadata, read));
    let metadata = metadata.transpose()?;
    let metadata = metadata
        .iter()
        .map(|metadata| ("metadata".to_owned(), &**metadata));
    let object: Fields<'_> = object.into_iter().chain(metadata).collect();
    serde_json::to_string(&object).map(Into::into)
}

fn metadata_without_unread(
    metadata: &RawValue,
    read: &[&str],
) -> serde_json::Result<Box<RawValue>> {
    let mut fields: Fields<'_> = serde_json::from_str(metadata.get())?;
    fields.remove("managedFields");
    let annotations = fields.remove("annotations").map(|all| only(all, read));
    let annotations = annotations.transpose()?;
    let annotations = annotations
        .iter()
        .map(|some| ("annotations".to_owned(), &**some));
    let fields: Fields<'_> = fields.into_iter().chain(annotations).collect();
    to_raw_value(&fields)
}

fn only(annotations: &RawValue, read: &[&str]) -> serde_json::Result<Box<RawValue>> {
    let all: Option<Fields<'_>> = serde_json::from_str(annotations.get())?;
    let mut some = all.unwrap_or_default();
    some.retain(|name, _| read.contains(&&**name));
    to_raw_value(&some)
}

impl<K: Watched> Resource for Shown<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    /// Of a Secret nothing else is asked for.
    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
    }
}

#[cfg(test)]
impl<K: Watched + serde::Serialize> Shown<K> {
    /// As the watch would show this one.
    pub fn of(object: &K) -> Self {
        serde_json::from_str(&serde_json::to_string(object).unwrap()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{PartialObjectMeta, WatchEvent};
    use serde_json::{Value, json};

    impl Watched for PartialObjectMeta<ConfigMap> {
        const ANNOTATIONS: &'static [&'static str] = &[];
    }

    impl Watched for ConfigMap {
        const ANNOTATIONS: &'static [&'static str] = &["read"];
    }

    fn shown(whole: &Value) -> Shown<ConfigMap> {
        serde_json::from_str(&whole.to_string()).unwrap()
    }

    #[test]
    fn what_nobody_reads_is_cut_out_and_all_else_is_as_it_was() {
        let whole = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {
                "name": "a", "creationTimestamp": "2026-11-21T15:34:43.5Z", "annotations": {"read": "\"\u{1F600}", "other": "long"},
                "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": {}}}],
            },
            "data": {"k": "v"},
        });
        let shown = shown(&whole);
        let mut expected = whole;
        expected["metadata"]["annotations"] = json!({"read": "\"\u{1F600}"});
        expected["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        assert_eq!(
            serde_json::from_str::<Value>(&shown.text).unwrap(),
            expected
        );
        let meta = shown.meta();
        assert!(meta.managed_fields.is_none());
        assert_eq!(meta.annotations.as_ref().unwrap().len(), 1);
        let again = Guarded::<ConfigMap>::read(&shown.text).unwrap();
        assert_eq!(again.0.unwrap(), shown.object.0.unwrap());
    }

    #[test]
    fn what_cannot_be_read_is_shown_with_its_name() {
        let shown = shown(&json!({"metadata": {"name": "a", "annotations": null}, "data": 7}));
        assert_eq!(shown.meta().name.as_deref(), Some("a"));
        let unreadable = shown.object.0.unwrap_err();
        assert!(
            unreadable.error.contains("invalid type: integer"),
            "{unreadable}"
        );
    }

    #[test]
    fn an_event_of_a_watch_shows_an_object() {
        let event =
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","annotations":{"other":"x"}}}}"#;
        let event: WatchEvent<Shown<ConfigMap>> = serde_json::from_str(event).unwrap();
        let WatchEvent::Added(shown) = event else {
            panic!("{event:?}")
        };
        assert_eq!(
            &*shown.text,
            r#"{"metadata":{"annotations":{},"name":"a"}}"#
        );
    }

    /// With `false` there the apiserver would send whole Secrets.
    #[test]
    fn of_an_object_whose_metadata_are_watched_nothing_else_is_asked_for() {
        assert!(Shown::<PartialObjectMeta<ConfigMap>>::metadata_api());
        assert!(!Shown::<ConfigMap>::metadata_api());
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for text in [
            "7",
            "{}}",
            r#"{"metadata": 7}"#,
            r#"{"metadata": {"annotations": 7}}"#,
        ] {
            assert!(
                serde_json::from_str::<Shown<ConfigMap>>(text).is_err(),
                "{text}"
            );
        }
    }
}
