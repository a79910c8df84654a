use super::*;
use crate::runtime::strings::shared;
use k8s_openapi::api::core::v1::Endpoints;

/// The brief of an object without an Account.
pub(in crate::runtime) fn brief(meta: &ObjectMeta) -> Brief {
    let flow = Flow {
        namespace: shared(meta.namespace.as_deref().unwrap_or_default()),
        account: shared(""),
    };
    Brief {
        flow: (flow, Priority::Resync),
        state: ObjectState {
            state: "ready",
            reason: "Unknown",
        },
        is_drifted: false,
        operation: None,
    }
}

impl Stored for Endpoints {
    fn brief(object: &DeserializeGuard<Self>) -> Brief {
        brief(object.meta())
    }
}

fn object(namespace: &str, name: &str, uid: &str) -> Endpoints {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectMeta::default()
    };
    Endpoints {
        metadata,
        ..Endpoints::default()
    }
}

#[test]
fn the_store_holds_the_last_version_of_each_object() {
    let store = Store::<Endpoints>::default();
    let put = |object: &Endpoints| {
        store.put(
            &ObjectKey::of(object),
            &DeserializeGuard(Ok(object.clone())),
        );
    };
    let held = |key| store.get(key).map(|object| object.0.clone().unwrap());
    let (web, edited) = (object("a", "web", "1"), object("a", "web", "2"));
    let key = ObjectKey::of(&web);
    put(&web);
    put(&object("a", "db", "3"));
    assert_eq!(held(&key), Some(web));
    put(&edited);
    assert_eq!(held(&key), Some(edited));
    assert_eq!(&*store.flow(&key).unwrap().0.namespace, "a");
    store.remove(&key);
    assert!(held(&key).is_none() && store.flow(&key).is_none());
    let mut keys = Vec::new();
    store.for_each(|key, _| keys.push(key.name.clone()));
    assert_eq!(keys, ["db"]);
}

#[test]
fn an_object_that_does_not_decode_is_kept_as_an_error_with_its_name() {
    let store = Store::<Endpoints>::default();
    let key = ObjectKey::new("a", "malformed");
    let malformed = r#"{"metadata": {"name": "malformed", "namespace": "a"}, "subsets": 7}"#;
    store.put(&key, &serde_json::from_str(malformed).unwrap());
    let held = || store.get(&key).unwrap();
    assert!(held().0.as_ref().unwrap_err().error.contains("integer"));
    assert_eq!(ObjectKey::of(&*held()), key);
    let entry = StoreEntry {
        brief: brief(&ObjectMeta::default()),
        text: Ok(Compressed::of("{")),
    };
    store.write().insert(key.clone(), Arc::new(entry));
    assert!(held().0.is_err());
    assert_eq!(ObjectKey::of(&*held()), key);
}
