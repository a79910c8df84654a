use super::*;
use rcgen::{CertificateParams, KeyPair};

fn certificate(name: &str) -> String {
    let params = CertificateParams::new([name.to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().pem()
}

#[test]
fn each_certificate_of_a_text_is_read_or_the_text_is_refused() {
    let (one, two) = (certificate("one"), certificate("two"));
    let joined = format!("{}{two}", one.trim_end());
    assert_eq!(certificates(&joined).unwrap().len(), 2);
    assert_eq!(
        certificates(&format!("subject: one {joined}"))
            .unwrap()
            .len(),
        2
    );
    assert_eq!(certificates("words").unwrap().len(), 0);
    let unfinished = format!("{two}{}", one.trim_end().trim_end_matches('-'));
    assert!(certificates(&unfinished).is_err());
    let in_one_line = joined.replace('\n', " ");
    assert!(certificates(&in_one_line).is_err());
}
