//! Certificates made at run time: an authority, servers, clients with a SPIFFE identity, and client
//! configurations that trust them.

use std::sync::Arc;

use rcgen::string::Ia5String;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::{Context as _, Error, Outcome};

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The certificate and the key, as PEM, of a server for `localhost` that has signed its own
/// certificate, as an authority or not.
pub fn self_signed(is_authority: bool) -> Outcome<(String, String)> {
    let mut params = CertificateParams::new(vec!["localhost".into()])?;
    params.is_ca = match is_authority {
        true => IsCa::Ca(BasicConstraints::Unconstrained),
        false => IsCa::ExplicitNoCa,
    };
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// A certificate with its key.
pub struct Identity {
    pub certificate_pem: String,
    pub key_pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub fn new() -> Outcome<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        // The certificates that it signs have the default name too, and would look self-signed.
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)
            .context("signing the authority")?;
        Ok(Self { issuer })
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A server certificate for `localhost` and `127.0.0.1`.
    pub fn server(&self) -> Outcome<Identity> {
        self.sign(CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()])?)
    }

    /// A server certificate for `localhost`, `127.0.0.1` and further names.
    pub fn server_named(&self, names: &[&str]) -> Outcome<Identity> {
        let names = ["localhost", "127.0.0.1"]
            .iter()
            .chain(names)
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>();
        self.sign(CertificateParams::new(names)?)
    }

    /// A certificate for a user of Kubernetes, by name and group.
    pub fn user(&self, name: &str, group: &str) -> Outcome<Identity> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        self.sign(params)
    }

    /// A client certificate with a URI such as `spiffe://cluster.local/ns/a/sa/b`.
    pub fn client(&self, uri: &str) -> Outcome<Identity> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.subject_alt_names = vec![SanType::URI(Ia5String::try_from(uri)?)];
        self.sign(params)
    }

    /// A client that trusts this authority, offers these protocols and shows this identity.
    pub fn client_config(
        &self,
        protocols: &[&str],
        identity: Option<&Identity>,
    ) -> Outcome<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone())?;
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
        let mut config = match identity {
            Some(identity) => builder.with_client_auth_cert(
                vec![identity.certificate.clone()],
                identity.key.clone_key(),
            )?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols =
            protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Ok(Arc::new(config))
    }

    /// A server with this identity.
    pub fn server_config(identity: &Identity) -> Outcome<Arc<ServerConfig>> {
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?;
        let builder = builder.with_no_client_auth();
        Ok(Arc::new(
            builder
                .with_single_cert(vec![identity.certificate.clone()], identity.key.clone_key())?,
        ))
    }

    fn sign(&self, params: CertificateParams) -> Outcome<Identity> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer).context("signing a certificate")?;
        Ok(Identity {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            certificate: certificate.der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).map_err(Error::msg)?,
        })
    }
}
