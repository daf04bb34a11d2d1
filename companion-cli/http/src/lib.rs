//! The HTTP client of all commands: sends one request and reads its response, with limits on time
//! and size. [`retry`] repeats requests, [`redirect`] follows redirects, [`mask`] removes secrets
//! from texts.

#![deny(missing_docs)]

mod basic;
mod error;
pub mod mask;
pub mod redirect;
pub mod retry;
mod tls;
pub mod url;

use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method};
use reqwest::blocking;

pub use basic::basic;
pub use error::HttpError;
pub use laststream_base::secret::Secret;
pub use tls::{Tls, Trust};
use url::Url;

use laststream_base::env_vars::{self, Lookup};

/// Time limits of a request.
#[derive(Debug, Clone)]
pub struct Limits {
    /// For finding the address and connecting, TLS included.
    pub connect: Duration,
    /// The longest silence: until the response begins, and between its parts.
    pub silence: Duration,
    /// For the whole request, with its answer.
    pub request: Duration,
}

/// The slowest upload that is not a time-out, in bytes per second. The blocking client has only one
/// time-out until the response begins, so it must be long enough for the upload.
const SLOWEST_UPLOAD: u64 = 64 << 10;

/// The settings of a client.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Certificate authorities and client certificate.
    pub trust: Trust,
    /// How requests reach their servers.
    pub route: Route,
    /// Whether connections are kept for further requests.
    pub keeps_connections: bool,
    /// The default time limits.
    pub limits: Limits,
}

/// How a request reaches its server.
#[derive(Debug, Clone)]
pub enum Route {
    /// A direct connection.
    Direct,
    /// Through the proxies of HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY; directly to this
    /// machine.
    ProxyFromEnv,
    /// Through a socket in the file system, whatever the URL's host is.
    Socket(PathBuf),
    /// A direct connection, from this local address.
    From(IpAddr),
}

impl Route {
    /// Through the proxies of the environment, if they are wanted.
    pub fn with_proxy(wanted: bool) -> Self {
        if wanted { Self::ProxyFromEnv } else { Self::Direct }
    }
}

/// Sends requests. Each of the two inner clients is built on first use, because loading the
/// machine's certificates takes time.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    plain: OnceLock<Result<blocking::Client, String>>,
    encrypted: OnceLock<Result<blocking::Client, String>>,
    /// The client for this machine, if this client uses a proxy.
    direct: OnceLock<Box<Self>>,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Its method.
    pub method: Method,
    /// Where it is sent.
    pub url: &'a Url,
    /// Its headers, besides those that the client sets.
    pub headers: &'a [(&'static str, String)],
    /// The value of its `Authorization` header.
    pub authorization: Option<&'a Secret>,
    /// Its body.
    pub body: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// A GET request without further headers.
    pub fn get(url: &'a Url) -> Self {
        Self { method: Method::GET, url, headers: &[], authorization: None, body: None }
    }
}

/// A response whose body has not been read yet.
pub struct Response {
    /// Its status code.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// The address of the request.
    pub url: Url,
    body: blocking::Response,
    limits: Limits,
    began: Instant,
}

impl Client {
    /// A client with these settings. It connects with the first request.
    pub fn new(settings: Settings) -> Self {
        let (plain, encrypted, direct) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { settings, plain, encrypted, direct }
    }

    /// Sends a request and waits for the head of the response. Does not follow redirects.
    pub fn send(&self, request: &Request<'_>) -> Result<Response, HttpError> {
        let limits = self.settings.limits.clone();
        self.send_within(request, limits)
    }

    /// Like [`Self::send`], with other limits. The limit on connecting stays that of the client.
    pub fn send_within(
        &self,
        request: &Request<'_>,
        limits: Limits,
    ) -> Result<Response, HttpError> {
        if matches!(self.settings.route, Route::ProxyFromEnv) && request.url.is_loopback() {
            return self.direct().send_within(request, limits);
        }
        let began = Instant::now();
        let client = if request.url.is_https() { self.encrypted() } else { self.plain() };
        let mut builder = client?.request(request.method.clone(), request.url.in_full());
        for (name, value) in request.headers {
            builder = builder.header(*name, value);
        }
        if let Some(authorization) = request.authorization {
            let value = HeaderValue::from_str(authorization.reveal());
            let mut value = value.map_err(|_| {
                HttpError::Other("the credentials cannot be sent as a header".to_owned())
            })?;
            value.set_sensitive(true);
            builder = builder.header("authorization", value);
        }
        let length = request.body.map_or(0, |body| body.len() as u64);
        if let Some(body) = request.body {
            builder = builder.body(body.to_vec());
        }
        // The time-out until the response begins, which includes sending the body.
        let time_limit =
            (limits.silence + Duration::from_secs(length / SLOWEST_UPLOAD)).min(limits.request);
        // The client's own time-out applies to the head and to each read of the body; that of a
        // request applies to the whole response.
        if length > 0 || limits.silence >= limits.request {
            builder = builder.timeout(time_limit);
        }
        let limits = Limits { silence: time_limit, ..limits };
        let body = builder.send().map_err(|error| HttpError::of(&error.without_url(), &limits))?;
        let (status, headers) = (body.status().as_u16(), body.headers().clone());
        Ok(Response { status, headers, url: request.url.clone(), body, limits, began })
    }

    fn direct(&self) -> &Self {
        let settings = || Settings { route: Route::Direct, ..self.settings.clone() };
        self.direct.get_or_init(|| Box::new(Self::new(settings())))
    }

    fn plain(&self) -> Result<&blocking::Client, HttpError> {
        let made = self.plain.get_or_init(|| {
            let may_ask_proxy = matches!(self.settings.route, Route::ProxyFromEnv);
            // Only a proxy can speak TLS here, and loading the machine's certificates takes time.
            made(if may_ask_proxy && names_tls_proxy(&env_vars::of_process) {
                self.settings.trust.apply(self.builder())?
            } else {
                self.builder().tls_certs_only([])
            })
        });
        made.as_ref().map_err(|error| HttpError::Other(error.clone()))
    }

    fn encrypted(&self) -> Result<&blocking::Client, HttpError> {
        let made = self.encrypted.get_or_init(|| made(self.settings.trust.apply(self.builder())?));
        made.as_ref().map_err(|error| HttpError::Tls(error.clone()))
    }

    fn builder(&self) -> blocking::ClientBuilder {
        // The call fails only if a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = blocking::Client::builder()
            .connect_timeout(self.settings.limits.connect)
            .timeout(self.settings.limits.silence)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .http1_only()
            .pool_max_idle_per_host(if self.settings.keeps_connections { usize::MAX } else { 0 })
            .user_agent(concat!("laststream/", env!("CARGO_PKG_VERSION")));
        match &self.settings.route {
            Route::ProxyFromEnv => builder,
            Route::Direct => builder.no_proxy(),
            Route::Socket(path) => builder.no_proxy().unix_socket(path.clone()),
            Route::From(address) => builder.no_proxy().local_address(*address),
        }
    }
}

/// Whether a variable names a proxy for plain requests that speaks TLS.
fn names_tls_proxy(lookup: Lookup<'_>) -> bool {
    let names = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    names.into_iter().filter_map(lookup).any(|proxy| {
        proxy.to_string_lossy().trim_start().to_ascii_lowercase().starts_with("https://")
    })
}

fn made(builder: blocking::ClientBuilder) -> Result<blocking::Client, String> {
    builder.build().map_err(|error| laststream_base::causes::with_sources(&error))
}

impl Response {
    /// The first header of this name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The length of the body, if the server names it.
    pub fn length(&self) -> Option<u64> {
        self.header("content-length").and_then(|length| length.trim().parse().ok())
    }

    /// The whole body, if it has at most `most` bytes.
    pub fn bytes(mut self, most: u64) -> Result<Vec<u8>, HttpError> {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = self.read(&mut buffer)?;
            if read.is_empty() {
                return Ok(bytes);
            }
            if bytes.len() as u64 + read.len() as u64 > most {
                return Err(HttpError::TooLarge(most));
            }
            bytes.extend_from_slice(read);
        }
    }

    /// The next part of the body; empty at its end.
    pub fn read<'b>(&mut self, buffer: &'b mut [u8]) -> Result<&'b [u8], HttpError> {
        if self.began.elapsed() > self.limits.request {
            return Err(HttpError::TooSlow(self.limits.request));
        }
        let count = self.body.read(buffer).map_err(|error| HttpError::of(&error, &self.limits))?;
        Ok(buffer.get(..count).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::names_tls_proxy;

    #[test]
    fn a_proxy_that_speaks_tls_is_known_by_its_scheme() {
        let speaks_tls = |variable: &str, value: &str| {
            names_tls_proxy(&|name: &str| (name == variable).then(|| OsString::from(value)))
        };
        assert!(speaks_tls("HTTP_PROXY", "https://proxy:3129"));
        assert!(speaks_tls("all_proxy", "HTTPS://proxy:3129"));
        assert!(!speaks_tls("HTTP_PROXY", "http://proxy:3128"));
        assert!(!speaks_tls("http_proxy", "proxy:3128"));
        assert!(!speaks_tls("HTTPS_PROXY", "https://proxy:3129"), "not for plain requests");
    }
}
