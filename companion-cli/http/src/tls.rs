//! Certificate authorities and client certificates for TLS.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use reqwest::blocking::ClientBuilder;
use reqwest::{Certificate, Identity};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use laststream_base::foreign;

/// The limit for a file in bytes. The bundles of operating systems have a few hundred kilobytes.
const LARGEST_PEM: u64 = 16 << 20;

/// The options of TLS.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// A file with the only certificate authorities to trust, instead of the machine's.
    pub ca_file: Option<PathBuf>,
    /// The files of the client's certificate and of its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
}

/// The contents of the files that [`Tls`] names.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    authorities: Option<Vec<CertificateDer<'static>>>,
    /// Certificates and key, as PEM.
    client: Option<Vec<u8>>,
    insecure: bool,
}

impl Tls {
    /// Whether an option is set: then TLS is used even on the loopback interface.
    pub fn is_wanted(&self) -> bool {
        self.ca_file.is_some() || self.client.is_some() || self.insecure
    }

    /// Reads the files. The error names the file and its problem.
    pub fn read(&self) -> Result<Trust, String> {
        let authorities = |file: &PathBuf| certificates(file, &read(file, AUTHORITY)?, AUTHORITY);
        Ok(Trust {
            authorities: self.ca_file.as_ref().map(authorities).transpose()?,
            client: self.client.as_ref().map(|(cert, key)| client(cert, key)).transpose()?,
            insecure: self.insecure,
        })
    }
}

impl Trust {
    /// Applies the settings. Without its own authorities, a client uses those of the machine.
    pub(super) fn apply(&self, mut builder: ClientBuilder) -> Result<ClientBuilder, String> {
        let text = |error: reqwest::Error| laststream_base::causes::with_sources(&error);
        if let Some(authorities) = &self.authorities {
            let certificates: Result<Vec<_>, _> =
                authorities.iter().map(|der| Certificate::from_der(der)).collect();
            builder = builder.tls_certs_only(certificates.map_err(text)?);
        }
        if let Some(pem) = &self.client {
            builder = builder.identity(Identity::from_pem(pem).map_err(text)?);
        }
        Ok(builder.tls_danger_accept_invalid_certs(self.insecure))
    }
}

const AUTHORITY: &str = "a certificate authority";

fn client(certificate: &Path, key: &Path) -> Result<Vec<u8>, String> {
    let (what, of_key) = ("a client certificate", "the key of a client certificate");
    let key_pem = read(key, of_key)?;
    PrivateKeyDer::from_pem_slice(&key_pem)
        .map_err(|_| unusable(key, of_key, "it holds no private key in PEM"))?;
    let mut pem = read(certificate, what)?;
    certificates(certificate, &pem, what)?;
    pem.push(b'\n');
    pem.extend(key_pem);
    Ok(pem)
}

fn certificates(
    file: &Path,
    pem: &[u8],
    what: &str,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|_| unusable(file, what, "it is damaged"))?;
    if certificates.is_empty() {
        Err(unusable(file, what, "it holds no certificate in PEM"))
    } else {
        Ok(certificates)
    }
}

fn read(file: &Path, what: &str) -> Result<Vec<u8>, String> {
    foreign::read_named(file, LARGEST_PEM).map_err(|error| unusable(file, what, error))
}

fn unusable(file: &Path, what: &str, problem: impl Display) -> String {
    format!("cannot use `{}` as {what}: {problem}", file.display())
}
