use super::*;
use crate::runtime::strings::shared;
use k8s_openapi::api::core::v1::Endpoints;

impl Kept for Endpoints {
    type Brief = Arc<str>;

    fn brief(object: &DeserializeGuard<Self>) -> Arc<str> {
        shared(object.meta().namespace.as_deref().unwrap_or_default())
    }
}

fn object(namespace: &str, name: &str, uid: Option<&str>) -> Endpoints {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        uid: uid.map(ToOwned::to_owned),
        ..ObjectMeta::default()
    };
    Endpoints {
        metadata,
        ..Endpoints::default()
    }
}

fn kept(store: &Store<Endpoints>, key: &ObjectKey) -> Option<Endpoints> {
    store.get(key).map(|object| object.0.clone().unwrap())
}

fn keys(store: &Store<Endpoints>) -> Vec<String> {
    let mut keys = Vec::new();
    store.for_each(|key, namespace| {
        assert_eq!(**namespace, *key.namespace);
        keys.push(format!("{}/{}", key.namespace, key.name));
    });
    keys.sort();
    keys
}

#[test]
fn it_shows_what_the_watch_told_and_a_listing_when_it_is_whole() {
    let store = Store::<Endpoints>::default();
    let mut writer = store.writer(None);
    let web = object("a", "web", Some("1"));
    writer.hear(Event::Init);
    writer.hear(Event::InitApply(web.clone()));
    writer.hear(Event::InitApply(object("a", "db", None)));
    assert_eq!(keys(&store), [""; 0], "half a listing");
    writer.hear(Event::InitDone);
    assert_eq!(keys(&store), ["a/db", "a/web"]);
    let key = ObjectKey::of(&web);
    assert_eq!(kept(&store, &key), Some(web));
    let edited = object("a", "web", Some("2"));
    writer.hear(Event::Apply(edited.clone()));
    assert_eq!(kept(&store, &key), Some(edited.clone()));
    assert_eq!(store.brief(&key, ToString::to_string).as_deref(), Some("a"));
    writer.hear(Event::Delete(edited));
    assert!(store.get(&key).is_none() && store.brief(&key, |_| ()).is_none());
    // A further listing takes the place of all.
    writer.hear(Event::Init);
    writer.hear(Event::InitApply(object("b", "web", Some("3"))));
    assert_eq!(keys(&store), ["a/db"]);
    writer.hear(Event::InitDone);
    assert_eq!(keys(&store), ["b/web"]);
    // A listing of one namespace takes the place of the objects of that namespace.
    let mut of_a = store.writer(Some("a".to_owned()));
    of_a.hear(Event::Init);
    of_a.hear(Event::InitApply(object("a", "web", None)));
    of_a.hear(Event::InitDone);
    assert_eq!(keys(&store), ["a/web", "b/web"]);
    of_a.hear(Event::Init);
    of_a.hear(Event::InitDone);
    assert_eq!(keys(&store), ["b/web"]);
}

/// Most objects did not change when they are listed again: they are neither compressed again nor held twice meanwhile.
#[test]
fn a_listing_shares_the_entries_of_objects_that_did_not_change() {
    let store = Store::<Endpoints>::default();
    let mut writer = store.writer(None);
    let (web, db) = (object("a", "web", Some("1")), object("a", "db", Some("2")));
    let [of_web, of_db] = [&web, &db].map(ObjectKey::of);
    for object in [&web, &db] {
        writer.hear(Event::Apply(object.clone()));
    }
    let before = [&of_web, &of_db].map(|key| store.read()[key].clone());
    writer.hear(Event::Init);
    writer.hear(Event::InitApply(web));
    writer.hear(Event::InitApply(object("a", "db", Some("3"))));
    writer.hear(Event::InitDone);
    let after = [&of_web, &of_db].map(|key| store.read()[key].clone());
    assert!(Arc::ptr_eq(&after[0], &before[0]));
    assert!(!Arc::ptr_eq(&after[1], &before[1]), "another text");
}

#[test]
fn an_object_that_does_not_decode_is_kept_as_an_error_with_its_name() {
    let store = Store::<Endpoints>::default();
    let mut writer = store.writer(None);
    let key = ObjectKey::new("a", "odd");
    let odd = r#"{"metadata": {"name": "odd", "namespace": "a"}, "subsets": 7}"#;
    writer.take(&Event::Apply(serde_json::from_str(odd).unwrap()), &key);
    let told = || store.get(&key).unwrap();
    assert!(told().0.as_ref().unwrap_err().error.contains("integer"));
    assert_eq!(ObjectKey::of(&*told()), key);
    let entry = Entry {
        brief: shared("a"),
        text: Ok(Compressed::of("{")),
    };
    writer.write().insert(key.clone(), Arc::new(entry));
    assert!(told().0.is_err());
    assert_eq!(ObjectKey::of(&*told()), key);
}
