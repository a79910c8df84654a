use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

fn now() -> UnixTime {
    UnixTime::now()
}

fn authority(year_of_its_end: i32) -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "an authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_after = date_time_ymd(year_of_its_end, 1, 1);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

/// A client certificate that is valid in these years, and its key.
fn client(years: (i32, i32)) -> (String, SecretString) {
    let mut params = CertificateParams::new(["client".to_owned()]).unwrap();
    params.not_before = date_time_ymd(years.0, 1, 1);
    params.not_after = date_time_ymd(years.1, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority(4000).0).unwrap();
    (certificate.pem(), key.serialize_pem().into())
}

fn bundle(pem: &str) -> Result<Tls, TlsError> {
    let pem = TlsPem {
        ca_bundle: Some(pem.to_owned()),
        client: None,
    };
    Tls::new(pem, now())
}

fn identity(chain: &str, key: &SecretString) -> Result<Tls, TlsError> {
    let pem = TlsPem {
        ca_bundle: None,
        client: Some((chain.to_owned(), key.clone())),
    };
    Tls::new(pem, now())
}

#[test]
fn the_flaw_of_a_bundle_is_reported() {
    let (_, good) = authority(4000);
    let (_, expired) = authority(2020);
    assert!(bundle(&good).is_ok());
    assert!(bundle(&format!("{expired}\n# words\n{good}")).is_ok());
    assert_eq!(bundle(""), Err(NO_AUTHORITY));
    assert_eq!(bundle("no PEM"), Err(NO_AUTHORITY));
    assert_eq!(bundle(&expired), Err(TlsError::BundleExpired));
    let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(bundle(odd), Err(AUTHORITY_INVALID));
    let cut = &good[..good.len() / 2];
    assert_eq!(bundle(cut), Err(AUTHORITY_INVALID));
    let long = good.repeat(LONGEST_BUNDLE / good.len() + 1);
    assert_eq!(bundle(&long), Err(BUNDLE_TOO_LONG));
    let key = KeyPair::generate().unwrap().serialize_pem();
    assert_eq!(bundle(&key), Err(NO_AUTHORITY));
}

#[test]
fn the_flaw_of_a_client_certificate_is_reported() {
    let (chain, key) = client((2020, 4000));
    assert!(identity(&chain, &key).is_ok());
    let (_, others) = client((2020, 4000));
    assert_eq!(identity(&chain, &others), Err(KEY_MISMATCH));
    let (expired, key_of_expired) = client((2019, 2020));
    assert_eq!(
        identity(&expired, &key_of_expired),
        Err(CERTIFICATE_EXPIRED)
    );
    let (early, key_of_early) = client((3999, 4000));
    assert_eq!(identity(&early, &key_of_early), Err(CERTIFICATE_NOT_YET));
    assert_eq!(identity("", &key), Err(NO_CERTIFICATE));
    assert_eq!(identity(key.expose_secret(), &key), Err(NO_CERTIFICATE));
    assert_eq!(identity(&chain, &chain.clone().into()), Err(NO_KEY));
    let odd = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert_eq!(identity(&chain, &odd.into()), Err(KEY_INVALID));
    let long = "x".repeat(LONGEST_IDENTITY + 1);
    assert_eq!(identity(&long, &key), Err(IDENTITY_TOO_LONG));
}

#[test]
fn equal_texts_make_equal_settings() {
    let (_, one) = authority(4000);
    let (_, two) = authority(4000);
    let (chain, key) = client((2020, 4000));
    assert_eq!(bundle(&one).unwrap(), bundle(&one).unwrap());
    let all = [
        Tls::default(),
        bundle(&one).unwrap(),
        bundle(&two).unwrap(),
        identity(&chain, &key).unwrap(),
    ];
    for (index, left) in all.iter().enumerate() {
        for right in &all[index + 1..] {
            assert_ne!(left, right);
        }
    }
}
