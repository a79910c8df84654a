//! An object of which nothing but the metadata may be readable.
//!
//! One object that does not decode must not stop a listing or a watch of others. The text of each is at hand while it is decoded,
//! so its metadata are read from it if nothing else can be. (`DeserializeGuard` of `kube` makes a tree of every object, copies the
//! tree, and decodes the copy.)

use kube::Resource;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::core::error_boundary::InvalidObject;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// An object, or why it could not be read. Decoded from JSON only.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub Result<K, InvalidObject>);

impl<K: Resource + DeserializeOwned> Guarded<K> {
    /// Decodes a text.
    ///
    /// # Errors
    /// Not even the metadata can be read.
    pub fn read(text: &str) -> serde_json::Result<Self> {
        let error = match serde_json::from_str(text) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(error) => error.to_string(),
        };
        let known: PartialObjectMeta<K> = serde_json::from_str(text)?;
        let metadata = known.metadata;
        Ok(Self(Err(InvalidObject { error, metadata })))
    }
}

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(text.get()).map_err(D::Error::custom)
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(unreadable) => &unreadable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(unreadable) => &mut unreadable.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectList;
    use serde_json::json;

    #[test]
    fn an_object_that_cannot_be_read_stops_no_listing_and_is_told_with_its_name() {
        let list = json!({
            "kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
            "items": [
                {"metadata": {"name": "well", "uid": "1"}, "data": {"a": "b"}},
                {"metadata": {"name": "odd", "uid": "2"}, "data": 7},
            ],
        });
        let list: ObjectList<Guarded<ConfigMap>> = serde_json::from_str(&list.to_string()).unwrap();
        let [well, odd] = &list.items[..] else {
            panic!("two were listed")
        };
        assert_eq!(well.0.as_ref().unwrap().data.as_ref().unwrap()["a"], "b");
        let unreadable = odd.0.as_ref().unwrap_err();
        assert!(unreadable.error.contains("invalid type"), "{unreadable}");
        assert_eq!(odd.meta().name.as_deref(), Some("odd"));
    }

    #[test]
    fn what_has_no_readable_metadata_is_an_error() {
        assert!(Guarded::<ConfigMap>::read(r#"{"metadata": 7}"#).is_err());
    }
}
