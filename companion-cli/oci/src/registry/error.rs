//! Errors of registry requests. Each text names the object and what to do. None holds a secret.

use std::fmt::{self, Display};
use std::time::Duration;

use laststream_base::digest::Digest;
use laststream_http::HttpError;
use laststream_http::mask::Mask;
use laststream_http::retry::Retryable;
use laststream_http::url::Url;

/// A response that refuses the request.
#[derive(Debug)]
pub struct Refusal {
    /// Its status code.
    pub status: u16,
    /// The registry's own message, made safe to print.
    pub message: String,
    /// The pause that its `Retry-After` asks for.
    pub retry_after: Option<Duration>,
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        if !self.message.is_empty() {
            write!(f, " ({})", self.message)?;
        }
        self.retry_after.map_or(Ok(()), |wait| {
            write!(f, "; it wants to be left alone for {} s", wait.as_secs())
        })
    }
}

/// Why a registry did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The request got no answer.
    #[error("{what}: `{url}`: {error}")]
    Http {
        /// What was tried, as a participle.
        what: &'static str,
        /// The address, without its query.
        url: String,
        /// The error of the request.
        error: HttpError,
    },
    /// The registry wants other credentials, or any.
    #[error("{what}: `{registry}` wants credentials: \
        {refusal}\n{}", login_hint(.registry, .login.as_deref()))]
    Unauthorized {
        /// What was tried, as a participle.
        what: &'static str,
        /// The name of the registry.
        registry: String,
        /// The source of the rejected credentials, if there are any.
        login: Option<String>,
        /// The answer.
        refusal: Refusal,
    },
    /// The registry refuses.
    #[error(
        "{what}: `{url}` answers with {refusal}{}",
        status_hint(.refusal.status, .login.as_deref())
    )]
    Refused {
        /// What was tried, as a participle.
        what: &'static str,
        /// The address, without its query.
        url: String,
        /// The source of the credentials, if there are any.
        login: Option<String>,
        /// The answer.
        refusal: Refusal,
    },
    /// The token server gave no token.
    #[error("no token for `{registry}`: `{realm}` \
        {problem}\n{}", login_hint(.registry, .login.as_deref()))]
    Token {
        /// The name of the registry.
        registry: String,
        /// The address of the token server.
        realm: String,
        /// The problem, as the end of a sentence about the token server.
        problem: String,
        /// The source of the credentials, if there are any.
        login: Option<String>,
    },
    /// A redirect to where secrets or data must not go.
    #[error("{what}: `{from}` leads to `{to}`, which is not followed: {why}")]
    Redirect {
        /// What was tried, as a participle.
        what: &'static str,
        /// The address of the request.
        from: String,
        /// The address that the answer names.
        to: String,
        /// The reason, in words.
        why: String,
    },
    /// Content does not have its digest.
    #[error(
        "{what}: the registry says `{found}`, but it is `{expected}`: something between here and \
            its storage changes or mixes up data"
    )]
    Digest {
        /// The content whose digest was compared.
        what: String,
        /// The right digest.
        expected: Digest,
        /// The digest of the content that came, or that the registry names.
        found: String,
    },
    /// The answer is not one of a registry.
    #[error("{what}: `{url}` {problem}")]
    Answer {
        /// What was tried, as a participle.
        what: &'static str,
        /// The address, without its query.
        url: String,
        /// The problem, as the end of a sentence about the address.
        problem: String,
    },
    /// Credentials or certificates that cannot be read.
    #[error("{0}")]
    Setup(String),
}

const PLAIN_HTTP: &str = "if it speaks plain HTTP, say so with `--plain-http`";
const AUTHORITY: &str =
    "if it has a certificate authority of its own, name that with `--ca-file FILE`";
const TLS: &str = "if it speaks TLS, leave `--plain-http` off; for one on this machine, name its \
    certificate authority with `--ca-file FILE`";
const LOGIN: &str = "or give `--username NAME --password-stdin`, or LASTSTREAM_REGISTRY_USERNAME \
    and LASTSTREAM_REGISTRY_PASSWORD";

impl RegistryError {
    pub(super) fn of_http(what: &'static str, url: impl Display, error: HttpError) -> Self {
        Self::Http { what, url: url.to_string(), error }
    }

    /// `problem` is the end of a sentence about the address.
    pub(super) fn of_answer(what: &'static str, url: &Url, problem: impl Into<String>) -> Self {
        Self::Answer { what, url: url.to_string(), problem: problem.into() }
    }

    /// The error, and the option of the program that may help.
    pub fn with_option(&self) -> String {
        let option = match self {
            Self::Http { error: HttpError::Tls(text), .. } => {
                let is_plain =
                    text.contains("InvalidContentType") || text.contains("corrupt message");
                if is_plain { PLAIN_HTTP } else { AUTHORITY }
            }
            Self::Http { error: HttpError::Other(_), url, .. } if url.starts_with("http:") => TLS,
            Self::Refused { refusal, .. } if refusal.message.contains("HTTPS server") => TLS,
            Self::Unauthorized { login: None, .. } | Self::Token { login: None, .. } => LOGIN,
            _ => return self.to_string(),
        };
        format!("{self}\n{option}")
    }

    /// Removes secrets from the texts that come from servers: addresses that they redirect to, and
    /// headers.
    pub(super) fn masked(mut self, mask: &Mask) -> Self {
        let texts: &mut [&mut String] = match &mut self {
            Self::Http { url, .. } | Self::Refused { url, .. } => &mut [url],
            Self::Token { realm, problem, .. } => &mut [realm, problem],
            Self::Redirect { from, to, .. } => &mut [from, to],
            Self::Digest { found, .. } => &mut [found],
            Self::Answer { url, problem, .. } => &mut [url, problem],
            Self::Unauthorized { .. } | Self::Setup(_) => &mut [],
        };
        for text in texts {
            **text = mask.apply(text);
        }
        self
    }
}

impl Retryable for RegistryError {
    fn is_retryable(&self) -> bool {
        match self {
            Self::Http { error, .. } => error.is_retryable(),
            Self::Refused { refusal, .. } => {
                matches!(refusal.status, 408 | 429 | 500..=599) && refusal.status != 501
            }
            _ => false,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { refusal, .. } => refusal.retry_after,
            _ => None,
        }
    }
}

fn login_hint(registry: &str, source: Option<&str>) -> String {
    match source {
        Some(source) => format!(
            "the credentials from {source} were refused: log in again (`docker login \
                {registry}`), or give others"
        ),
        None => format!("none were found: `docker login {registry}`"),
    }
}

fn status_hint(status: u16, source: Option<&str>) -> String {
    match (status, source) {
        (403, Some(source)) => {
            format!("\nthe credentials from {source} are not allowed to do this")
        }
        (403, None) => "\nno credentials were sent: it may want some".to_owned(),
        (404, _) => {
            "\ncheck the name; some registries want a repository to be created first".to_owned()
        }
        (405, _) => "\nit may be read-only".to_owned(),
        _ => String::new(),
    }
}
