//! The certificate authorities of the web as a PEM file. They come from a crate and not from the
//! machine, whose list would differ.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// Characters in a line, as RFC 7468 has it.
const WIDTH: usize = 64;

pub(crate) fn pem() -> String {
    TLS_SERVER_ROOT_CERTS.iter().map(|certificate| block(&STANDARD.encode(certificate))).collect()
}

fn block(base64: &str) -> String {
    let lines: String = base64
        .as_bytes()
        .chunks(WIDTH)
        .map(|line| format!("{}\n", String::from_utf8_lossy(line)))
        .collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}
