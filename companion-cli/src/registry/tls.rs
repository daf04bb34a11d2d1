//! Whom to trust, and whom to be, when a connection is encrypted.

use std::path::{Path, PathBuf};

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::error::Error;

/// What the options say about TLS.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// The only authorities to trust, instead of the machine's.
    pub ca_file: Option<PathBuf>,
    /// A certificate of one's own, with its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Trust anybody.
    pub insecure: bool,
}

impl Tls {
    /// Whether anything was said; then there is TLS.
    pub(super) fn is_wanted(&self) -> bool {
        self.ca_file.is_some() || self.client.is_some() || self.insecure
    }

    pub(super) fn config(&self) -> Result<TlsConfig, Error> {
        let roots = match &self.ca_file {
            Some(file) => RootCerts::new_with_certs(&certificates(file, "a certificate authority")?),
            None => RootCerts::PlatformVerifier,
        };
        let client = self.client.as_ref().map(|(certificate, key)| client(certificate, key)).transpose()?;
        Ok(TlsConfig::builder().root_certs(roots).client_cert(client).disable_verification(self.insecure).build())
    }
}

fn client(certificate: &Path, key: &Path) -> Result<ClientCert, Error> {
    let what = "the key of a client certificate";
    let key = PrivateKey::from_pem(&read(key, what)?).map_err(|_| wrong(key, what, "it holds no private key in PEM"))?;
    Ok(ClientCert::new_with_certs(&certificates(certificate, "a client certificate")?, key))
}

fn certificates(file: &Path, what: &'static str) -> Result<Vec<Certificate<'static>>, Error> {
    let text = read(file, what)?;
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(_) => Some(Err(wrong(file, what, "it is damaged"))),
    };
    let found: Vec<_> = parse_pem(&text).filter_map(certificate).collect::<Result<_, _>>()?;
    if found.is_empty() { Err(wrong(file, what, "it holds no certificate in PEM")) } else { Ok(found) }
}

fn read(file: &Path, what: &'static str) -> Result<Vec<u8>, Error> {
    std::fs::read(file).map_err(|error| wrong(file, what, &error.to_string()))
}

fn wrong(file: &Path, what: &'static str, problem: &str) -> Error {
    Error::Certificate { path: file.to_owned(), what, problem: problem.to_owned() }
}
