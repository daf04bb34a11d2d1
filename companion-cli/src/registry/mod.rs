//! Talks to container registries (the OCI distribution protocol): carries an image there, finds and fetches what is there.
//!
//! What holds for all of it:
//! - Credentials go to the registry that was named, to the token server that it names, and to nobody else: not behind a redirect, not to
//!   another port, not without TLS where TLS was.
//! - What cannot end well is not tried again; what can is, and from the beginning: an upload is never taken up in the middle.
//! - Every wait has an end, every answer a largest size, and everything that comes is checked against its digest.

mod address;
mod auth;
mod challenge;
pub mod credentials;
mod error;
mod http;
mod publish;
mod pull;
mod push;
mod retry;
mod tls;
mod words;

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use ureq::http::Method;

pub use error::{Error, HttpError, Refusal};
pub use http::Limits;
pub use publish::{Problem, Unpublished, publish};
pub use pull::{Fetched, Resolved};
pub use push::Arrival;
pub use tls::Tls;

use crate::image::{DOCKER_HUB, is_docker_hub};
use crate::progress::Progress;
use address::{Origin, Url};
use auth::{Authorization, Cache, Scope};
use credentials::{Found, Login, Sources};
use http::{Answer, Ask, Http};

/// Where Docker Hub's registry really is.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";
const MOST_REDIRECTS: usize = 5;

/// How registries are talked to.
#[derive(Debug, Clone)]
pub struct Options {
    /// Without TLS. On the loopback interface that is so by itself, unless something is said about TLS.
    pub plain_http: bool,
    /// About TLS.
    pub tls: Tls,
    /// How long things may take.
    pub limits: Limits,
    /// Further tries of what may be tried again.
    pub retries: u32,
    /// Whether the proxy variables of the process count.
    pub proxy_from_env: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { plain_http: false, tls: Tls::default(), limits: Limits::default(), retries: 4, proxy_from_env: true }
    }
}

impl Options {
    /// Whether a registry is talked to without TLS.
    #[must_use]
    pub fn is_plain_http(&self, registry: &str) -> bool {
        self.plain_http || (is_loopback(registry) && !self.tls.is_wanted())
    }
}

/// One registry.
pub struct Registry<'a> {
    name: String,
    origin: Origin,
    http: Http,
    options: &'a Options,
    sources: &'a Sources,
    progress: &'a dyn Progress,
    authorizations: Cache,
    logins: Mutex<HashMap<String, Option<Found>>>,
}

/// What is asked of a registry.
struct Call<'a> {
    /// For messages.
    what: &'static str,
    method: Method,
    url: Url,
    headers: Vec<(&'static str, String)>,
    body: Option<&'a [u8]>,
    limit: u64,
    /// Whether another host may answer. Then it gets no credentials.
    elsewhere: bool,
    /// Whether the same may be sent again after a 401.
    resend: bool,
}

/// One repository of a registry, with what one wants there.
struct Repository<'a> {
    registry: &'a Registry<'a>,
    name: &'a str,
    scope: Scope,
}

impl<'a> Registry<'a> {
    /// Does not connect yet.
    ///
    /// # Errors
    /// A file with a certificate or key cannot be used.
    pub fn new(name: &str, options: &'a Options, sources: &'a Sources, progress: &'a dyn Progress) -> Result<Self, Error> {
        let host = if is_docker_hub(name) { DOCKER_HUB_HOST } else { name };
        Ok(Self {
            name: if is_docker_hub(name) { DOCKER_HUB } else { name }.to_owned(),
            origin: Origin::new(!options.is_plain_http(name), host),
            http: Http::new(&options.limits, options.tls.config()?, options.proxy_from_env && !is_loopback(name)),
            options,
            sources,
            progress,
            authorizations: Cache::default(),
            logins: Mutex::default(),
        })
    }

    /// The registry's own words, without anything that was to be kept secret: some servers repeat what they were sent.
    fn refusal(&self, answer: &Answer) -> Refusal {
        let mut said = words::of_body(&answer.body);
        let logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
        for found in logins.values().flatten() {
            let (Login::Password { password: secret, .. } | Login::IdentityToken { token: secret, .. }) = &found.login;
            said = said.replace(secret.reveal(), "…");
        }
        for header in self.authorizations.headers() {
            said = said.replace(header.reveal().split(' ').next_back().unwrap_or_default(), "…");
        }
        let retry_after = answer.header("retry-after").and_then(|header| retry::after(header, SystemTime::now()));
        Refusal { status: answer.status, said, retry_after }
    }
}

impl Repository<'_> {
    /// An address below `/v2/NAME/`.
    fn url(&self, rest: &str) -> Url {
        self.registry.origin.url(&format!("/v2/{}/{rest}", self.name))
    }

    /// Asks, with whatever it takes to be let in. A token that has ended is renewed once.
    fn call(&self, call: &Call<'_>) -> Result<Answer, Error> {
        let shown = self.registry.authorizations.get(&self.scope);
        let answer = self.follow(call, shown.as_ref())?;
        let is_settled = answer.status != 401 || answer.url.origin != self.registry.origin;
        if is_settled || shown.is_some_and(|authorization| authorization.is_fixed) {
            return Ok(answer);
        }
        let headers = answer.headers.get_all("www-authenticate").iter().filter_map(|header| header.to_str().ok());
        let challenges: Vec<_> = headers.flat_map(challenge::parse).collect();
        match self.registry.authorize(&challenges, self.name, &self.scope)? {
            Some(authorization) if call.resend => self.follow(call, Some(&authorization)),
            Some(_) => Ok(Answer { renewed: true, ..answer }),
            None => Ok(answer),
        }
    }

    /// Follows redirects. Only the registry itself gets to see the authorization, and only as long as nobody else had a say in where to go.
    fn follow(&self, call: &Call<'_>, authorization: Option<&Authorization>) -> Result<Answer, Error> {
        let mut url = call.url.clone();
        let mut authorization = authorization.map(|authorization| &authorization.header);
        self.check_way(call, &self.registry.origin, &url)?;
        for _ in 0..=MOST_REDIRECTS {
            authorization = authorization.filter(|_| url.origin == self.registry.origin);
            let Call { method, headers, body, limit, .. } = call;
            let ask = Ask { method: method.clone(), url: &url, headers, authorization, body: *body, limit: *limit };
            let answer = self.registry.http.ask(&ask).map_err(|error| Error::Http { what: call.what, url: url.to_string(), error })?;
            let keeps_method = matches!(answer.status, 307 | 308);
            if !keeps_method && !matches!(answer.status, 301..=303) {
                return Ok(answer);
            }
            let to = answer.header("location").and_then(|location| url.join(location));
            let to = to.ok_or_else(|| self.nonsense(call.what, &answer, "redirects without saying where"))?;
            if !keeps_method && !matches!(*method, Method::GET | Method::HEAD) {
                return Err(self.nonsense(call.what, &answer, "redirects with a status that turns it into a GET"));
            }
            self.check_way(call, &url.origin, &to)?;
            url = to;
        }
        let why = "that was one redirect too many";
        Err(Error::Redirect { what: call.what, from: call.url.to_string(), to: url.to_string(), why })
    }

    /// Whether one may go there from here.
    fn check_way(&self, call: &Call<'_>, from: &Origin, to: &Url) -> Result<(), Error> {
        let why = if to.is_downgrade_of(from) {
            "it is without TLS, and the way there was not; a proxy in front of the registry must pass `X-Forwarded-Proto: https` on, or the \
             registry use relative addresses (`http.relativeurls`)"
        } else if !call.elsewhere && to.origin != self.registry.origin {
            "only blobs may be elsewhere"
        } else {
            return Ok(());
        };
        Err(Error::Redirect { what: call.what, from: from.to_string(), to: to.to_string(), why })
    }

    /// The answer if it is a good one, else the error that it is.
    fn accepted(&self, what: &'static str, answer: Answer) -> Result<Answer, Error> {
        if answer.is_success() {
            return Ok(answer);
        }
        let (registry, refusal) = (self.registry.name.clone(), self.registry.refusal(&answer));
        let is_here = answer.url.origin == self.registry.origin;
        let login = self.registry.login_shown(self.name).filter(|_| is_here);
        match answer.status {
            401 if is_here => Err(Error::Unauthorized { what, registry, login, refusal }),
            _ => Err(Error::Refused { what, url: answer.url.to_string(), login, refusal }),
        }
    }

    fn nonsense(&self, what: &'static str, answer: &Answer, problem: &str) -> Error {
        Error::Answer { what, url: answer.url.to_string(), problem: problem.to_owned() }
    }
}

/// `localhost`, 127.0.0.0/8 or `[::1]`, with or without a port.
fn is_loopback(name: &str) -> bool {
    let address = name.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if let Some((address, _)) = address {
        return address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback());
    }
    let host = name.split(':').next().unwrap_or_default();
    host == "localhost" || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    #[test]
    fn tls_is_the_rule_and_this_machine_the_exception() {
        let origin = |name: &str, plain_http: bool, insecure: bool| {
            let options = Options { plain_http, tls: Tls { insecure, ..Tls::default() }, ..Options::default() };
            let sources = Sources::none();
            Registry::new(name, &options, &sources, &Silent).unwrap().origin.to_string()
        };
        assert_eq!(origin("r.test", false, false), "https://r.test");
        assert_eq!(origin("r.test:5000", true, false), "http://r.test:5000");
        assert_eq!(origin("localhost:5000", false, false), "http://localhost:5000");
        assert_eq!(origin("localhost.test", false, false), "https://localhost.test");
        assert_eq!(origin("127.1.2.3:5000", false, false), "http://127.1.2.3:5000");
        assert_eq!(origin("[::1]:5000", false, false), "http://[::1]:5000");
        assert_eq!(origin("[::2]:5000", false, false), "https://[::2]:5000");
        assert_eq!(origin("localhost:5000", false, true), "https://localhost:5000");
        assert_eq!(origin("docker.io", false, false), "https://registry-1.docker.io");
    }
}
