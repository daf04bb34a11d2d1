//! A token server to which registries refer clients: it checks the login and signs the permissions.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use crate::fake_server::{Answer, Asked, Service, serve};
use crate::{Context as _, Error, Outcome, locked};

pub(crate) const ISSUER: &str = "the issuer of a test";
pub(crate) const SERVICE: &str = "the registry of a test";

/// The logins that it accepts.
pub struct Accounts {
    pub username: &'static str,
    pub password: &'static str,
    /// The identity token, which clients post. Without it, a POST gets 404.
    pub identity: Option<&'static str>,
}

pub struct TokenServer {
    service: Arc<Signer>,
    pub address: SocketAddr,
    pub certificate_pem: String,
}

struct Signer {
    accounts: Accounts,
    key: EcdsaKeyPair,
    certificate: String,
    asked: Mutex<Vec<String>>,
}

impl TokenServer {
    pub fn start(accounts: Accounts) -> Outcome<Self> {
        let pair = KeyPair::generate()?;
        let certificate = CertificateParams::new(Vec::new())?.self_signed(&pair)?;
        let key = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &pair.serialize_der(),
            &SystemRandom::new(),
        );
        let key = key.map_err(|error| Error::msg(format!("the key: {error}")))?;
        let der = BASE64_STANDARD.encode(certificate.der());
        let service = Arc::new(Signer { accounts, key, certificate: der, asked: Mutex::default() });
        let address = serve(None, service.clone())?;
        Ok(Self { service, address, certificate_pem: certificate.pem() })
    }

    /// `auth` in the registry's configuration. The certificate must be in this file.
    pub fn auth(&self, certificate: &std::path::Path) -> Value {
        let realm = format!("http://{}/token", self.address);
        json!({
            "token": {
                "realm": realm, "service": SERVICE, "issuer": ISSUER, "rootcertbundle": certificate,
            },
        })
    }

    /// Each request: the method and the scopes.
    pub fn asked(&self) -> Vec<String> {
        locked(&self.service.asked).clone()
    }
}

impl Service for Signer {
    fn answer(&self, asked: &Asked, body: &[u8]) -> Answer {
        let query = asked.target.split_once('?').map_or("", |(_, query)| query);
        let form = if asked.method == "POST" { body } else { query.as_bytes() };
        let parameter = |name: &str| {
            form_urlencoded::parse(form)
                .filter(|(known, _)| known == name)
                .map(|(_, value)| value.into_owned())
                .collect::<Vec<_>>()
        };
        let scopes = parameter("scope").join(" ");
        locked(&self.asked).push(format!("{} {scopes}", asked.method));
        let is_allowed = match (asked.method.as_str(), self.accounts.identity) {
            ("POST", None) => return Answer::new(404),
            ("POST", Some(identity)) => {
                parameter("refresh_token") == [identity]
                    && parameter("grant_type") == ["refresh_token"]
            }
            _ => asked.header("authorization") == Some(&basic(&self.accounts)),
        };
        if !is_allowed || parameter("service") != [SERVICE] {
            return Answer::new(401)
                .body(r#"{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}"#);
        }
        match self.token(&scopes) {
            Ok(token) => Answer::new(200)
                .body(json!({ "access_token": token, "expires_in": 300 }).to_string()),
            Err(failure) => Answer::new(500).body(format!("{failure:#}")),
        }
    }
}

impl Signer {
    fn token(&self, scopes: &str) -> Outcome<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let access: Vec<Value> = scopes.split(' ').filter_map(access).collect();
        let header = json!({ "typ": "JWT", "alg": "ES256", "x5c": [self.certificate] });
        let claims = json!({
            "iss": ISSUER, "aud": SERVICE, "sub": "", "exp": now + 300, "nbf": now - 10, "iat": now,
            "jti": "1", "access": access,
        });
        let encoded = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encoded(&header), encoded(&claims));
        let signature =
            self.key.sign(&SystemRandom::new(), signed.as_bytes()).ok().context("signing")?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }
}

/// `repository:a/b:pull,push`
fn access(scope: &str) -> Option<Value> {
    let (kind, rest) = scope.split_once(':')?;
    let (name, actions) = rest.rsplit_once(':')?;
    Some(json!({ "type": kind, "name": name, "actions": actions.split(',').collect::<Vec<_>>() }))
}

fn basic(accounts: &Accounts) -> String {
    format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{}:{}", accounts.username, accounts.password))
    )
}
