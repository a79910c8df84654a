//! Prints the certificate authorities that the image trusts, as PEM: those of Mozilla, in the version that Cargo.lock names, so
//! that the same tree makes the same image on every machine.

use std::io::Write;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let block = pem::Pem::new("CERTIFICATE", certificate.as_ref());
        out.write_all(pem::encode(&block).as_bytes())?;
    }
    out.flush()
}
