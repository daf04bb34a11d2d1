//! A client of container registries (the OCI distribution protocol): pushes and pulls
//! images.
//!
//! Rules for all requests:
//! - Credentials go only to the named registry and its token server: not behind a redirect, not to
//!   another port, not without TLS where TLS was.
//! - Only temporary errors are retried, each time from the beginning: an upload is never resumed.
//! - Every wait has a time-out, every response a size limit, and all content is checked against its
//!   digest.

mod auth;
mod challenge;
pub mod credentials;
mod error;
mod error_text;
mod publish;
mod pull;
mod push;
mod response;

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use http::Method;
use http::uri::Authority;

pub use error::{Refusal, RegistryError};
pub use laststream_http::retry::RetryPolicy;
pub use laststream_http::{HttpError, Limits, Tls};
pub use publish::Registries;
pub use pull::FetchedManifest;
pub use push::Arrival;

use crate::image::{DOCKER_HUB, is_docker_hub};
use auth::{Authorization, Cache, Scope};
use credentials::{FoundLogin, Login, Sources};
use laststream_base::progress::Progress;
use laststream_http::mask::Mask;
use laststream_http::redirect::{FollowError, RedirectRefusal, follow};
use laststream_http::retry;
use laststream_http::url::{self, Url};
use laststream_http::{self as client, Client, Request, Settings};
use response::RegistryResponse;

/// The host of Docker Hub's registry.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";

/// How a registry is reached.
#[derive(Debug, Clone)]
pub struct Options {
    /// Uses HTTP without TLS. This is the default on the loopback interface, unless a TLS option is
    /// set.
    pub plain_http: bool,
    /// The options of TLS.
    pub tls: Tls,
    /// The time limits of requests.
    pub limits: Limits,
    /// The number of retries after temporary errors, and their pauses.
    pub retry: RetryPolicy,
    /// Whether the proxy variables of the environment are used.
    pub proxy_from_env: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            plain_http: false,
            tls: Tls::default(),
            limits: Limits {
                connect: Duration::from_secs(10),
                silence: Duration::from_secs(30),
                request: Duration::from_secs(10 * 60),
            },
            retry: RetryPolicy {
                further: 4,
                pause: Duration::from_millis(500),
                longest_pause: Duration::from_secs(60),
            },
            proxy_from_env: true,
        }
    }
}

impl Options {
    /// Whether requests to a registry are sent without TLS.
    pub fn is_plain_http(&self, registry: &str) -> bool {
        self.plain_http || (is_loopback(registry) && !self.tls.is_wanted())
    }
}

/// A registry. It keeps tokens for further requests.
pub struct Registry<'a> {
    name: String,
    /// The origin of the registry.
    home: Url,
    http: Client,
    options: &'a Options,
    sources: &'a Sources,
    progress: &'a dyn Progress,
    authorizations: Cache,
    logins: RefCell<HashMap<String, Option<FoundLogin>>>,
    refused_realm: RefCell<Option<String>>,
}

struct Call<'a> {
    /// The action, for messages.
    what: &'static str,
    method: Method,
    url: Url,
    headers: Vec<(&'static str, String)>,
    body: Option<&'a [u8]>,
    limit: u64,
    /// Whether another host may answer. It gets no credentials.
    allow_other_host: bool,
    /// Whether the request may be sent again after a 401.
    resend: bool,
}

impl Call<'_> {
    /// A call without a body, which another host may answer.
    fn new(what: &'static str, method: Method, url: Url, limit: u64) -> Self {
        Self {
            what,
            method,
            url,
            headers: Vec::new(),
            body: None,
            limit,
            allow_other_host: true,
            resend: true,
        }
    }
}

/// One repository of a registry, with the scope of the access.
struct Repository<'a> {
    registry: &'a Registry<'a>,
    name: &'a str,
    scope: Scope,
}

impl<'a> Registry<'a> {
    /// Makes a client, which does not connect yet.
    pub fn new(
        name: &str,
        options: &'a Options,
        sources: &'a Sources,
        progress: &'a dyn Progress,
    ) -> Result<Self, RegistryError> {
        let host = if is_docker_hub(name) { DOCKER_HUB_HOST } else { name };
        let scheme = if options.is_plain_http(name) { "http" } else { "https" };
        let home = Url::parse(&format!("{scheme}://{host}/")).ok_or_else(|| {
            RegistryError::of_http("finding the registry", name, HttpError::NoHost)
        })?;
        let settings = Settings {
            trust: options.tls.read().map_err(RegistryError::Setup)?,
            route: client::Route::with_proxy(options.proxy_from_env),
            keeps_connections: true,
            limits: options.limits.clone(),
        };
        Ok(Self {
            name: if is_docker_hub(name) { DOCKER_HUB } else { name }.to_owned(),
            home,
            http: Client::new(settings),
            options,
            sources,
            progress,
            authorizations: Cache::default(),
            logins: RefCell::default(),
            refused_realm: RefCell::default(),
        })
    }

    /// A mask of all secrets that were sent, because some servers repeat them in errors.
    fn mask(&self) -> Mask {
        let mut mask = Mask::default();
        let logins = self.logins.borrow();
        let mut headers = self.authorizations.headers();
        for found in logins.values().flatten() {
            let (Login::Password { password: secret, .. }
            | Login::IdentityToken { token: secret, .. }) = &found.login;
            mask.add(secret.reveal());
            headers.push(found.login.basic());
        }
        for header in headers {
            mask.add(header.reveal().split(' ').next_back().unwrap_or_default());
        }
        mask
    }

    /// Runs an attempt, and retries temporary errors. Secrets are removed from the error.
    fn with_retries<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let attempt = || attempt().map_err(|error| error.masked(&self.mask()));
        retry::with_retries(self.options.retry, attempt, |error, wait| {
            self.progress.started(&format!("{error}; trying again in {} s", wait.as_secs_f32()));
        })
    }

    /// The refusal of a registry or of its token server, without secrets.
    fn refusal(&self, answer: &RegistryResponse, words: error_text::ErrorText) -> Refusal {
        let message = words.of_body(&answer.body, &self.mask());
        let retry_after =
            answer.header("retry-after").and_then(|header| retry::after(header, SystemTime::now()));
        Refusal { status: answer.status, message, retry_after }
    }
}

impl Repository<'_> {
    /// An address below `/v2/NAME/`.
    fn url(&self, rest: &str) -> Url {
        self.registry.home.at(&format!("/v2/{}/{rest}", self.name))
    }

    /// Sends a request with authorization. An expired token is renewed once.
    fn call(&self, call: &Call<'_>) -> Result<RegistryResponse, RegistryError> {
        let last_header = self.registry.authorizations.get(&self.scope);
        let answer = self.follow(call, last_header.as_ref())?;
        let is_settled = answer.status != 401 || answer.url.origin() != self.registry.home.origin();
        if is_settled || last_header.is_some_and(|authorization| authorization.is_fixed) {
            return Ok(answer);
        }
        let headers = answer
            .headers
            .get_all("www-authenticate")
            .iter()
            .filter_map(|header| header.to_str().ok());
        let challenges: Vec<_> = headers.flat_map(challenge::parse).collect();
        self.registry.note_realms(&challenges);
        match self.registry.authorize(&challenges, self.name, &self.scope)? {
            Some(authorization) if call.resend => self.follow(call, Some(&authorization)),
            Some(_) => Ok(RegistryResponse { renewed: true, ..answer }),
            None => Ok(answer),
        }
    }

    fn follow(
        &self,
        call: &Call<'_>,
        authorization: Option<&Authorization>,
    ) -> Result<RegistryResponse, RegistryError> {
        let authorization = authorization.map(|authorization| &authorization.header);
        let Call { what, method, url, headers, body, limit, allow_other_host: elsewhere, .. } =
            call;
        let request = Request { method: method.clone(), url, headers, authorization, body: *body };
        let response = follow(&self.registry.http, &request, &self.registry.home, *elsewhere)
            .map_err(|lost| request_error(what, lost))?;
        let url = response.url.clone();
        RegistryResponse::read(response, *limit)
            .map_err(|error| RegistryError::of_http(what, url, error))
    }

    /// The response if its status is a success, else the error.
    fn accepted(
        &self,
        what: &'static str,
        answer: RegistryResponse,
    ) -> Result<RegistryResponse, RegistryError> {
        if answer.is_success() {
            return Ok(answer);
        }
        let (registry, refusal) = (
            self.registry.name.clone(),
            self.registry.refusal(&answer, error_text::ErrorText::OfRegistry),
        );
        let is_here = answer.url.origin() == self.registry.home.origin();
        let login = self.registry.login_shown(self.name).filter(|_| is_here);
        match answer.status {
            401 if is_here => Err(RegistryError::Unauthorized { what, registry, login, refusal }),
            _ => Err(RegistryError::Refused { what, url: answer.url.to_string(), login, refusal }),
        }
    }
}

fn request_error(what: &'static str, lost: FollowError) -> RegistryError {
    match lost {
        FollowError::Http { url, error } => RegistryError::of_http(what, url, error),
        FollowError::Refused { from, to, why } => {
            RegistryError::Redirect { what, from, to, why: redirect_refusal_text(why) }
        }
        FollowError::Malformed { url, problem } => RegistryError::of_answer(what, &url, problem),
    }
}

fn redirect_refusal_text(why: RedirectRefusal) -> String {
    match why {
        RedirectRefusal::Downgrade => format!(
            "{why}; a proxy in front of the registry must pass `X-Forwarded-Proto: https` on, or \
                the registry use relative addresses (`http.relativeurls`)"
        ),
        RedirectRefusal::OtherHost => "only blobs may be elsewhere".to_owned(),
        RedirectRefusal::TooMany => why.to_string(),
    }
}

/// Whether the registry of this name, with or without a port, is on this machine.
fn is_loopback(name: &str) -> bool {
    name.parse::<Authority>().is_ok_and(|authority| url::is_loopback(authority.host()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use laststream_base::progress::Silent;

    #[test]
    fn tls_is_the_default_except_on_this_machine() {
        let home = |name: &str, plain_http: bool, insecure: bool| {
            let options = Options {
                plain_http,
                tls: Tls { insecure, ..Tls::default() },
                ..Options::default()
            };
            let sources = Sources::none();
            Registry::new(name, &options, &sources, &Silent).unwrap().home.to_string()
        };
        assert_eq!(home("r.test", false, false), "https://r.test/");
        assert_eq!(home("r.test:5000", true, false), "http://r.test:5000/");
        assert_eq!(home("localhost:5000", false, false), "http://localhost:5000/");
        assert_eq!(home("[::1]:5000", false, false), "http://[::1]:5000/");
        assert_eq!(home("localhost:5000", false, true), "https://localhost:5000/");
        assert_eq!(home("docker.io", false, false), "https://registry-1.docker.io/");
    }
}
