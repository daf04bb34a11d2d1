//! Errors of registry requests. Each text names the object and what to do. None holds a secret.

use std::time::Duration;

use super::credentials;
use crate::digest::Digest;
use crate::http::mask::Mask;
use crate::http::retry::Passing;
use crate::http::{CertificateError, HttpError};

/// A response that refuses the request.
#[derive(Debug)]
pub struct Refusal {
    /// The status of its answer.
    pub status: u16,
    /// Its own words, made safe to print.
    pub message: String,
    /// Its `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {}", self.status)?;
        if !self.message.is_empty() {
            write!(f, " ({})", self.message)?;
        }
        self.retry_after.map_or(Ok(()), |wait| {
            write!(f, "; it wants to be left alone for {} s", wait.as_secs())
        })
    }
}

/// Why something could not be done with a registry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No answer.
    #[error("{what}: `{url}`: {error}{}", http_hint(.error, .url))]
    Http {
        /// What was to be done.
        what: &'static str,
        /// The address, without its query.
        url: String,
        /// What happened.
        error: HttpError,
    },
    /// 401: not with these credentials, or not without any.
    #[error("{what}: `{registry}` wants credentials: \
        {refusal}\n{}", login_hint(.registry, .login.as_deref()))]
    Unauthorized {
        /// What was to be done.
        what: &'static str,
        /// Where.
        registry: String,
        /// Where the credentials were from that it does not take.
        login: Option<String>,
        /// Its words.
        refusal: Refusal,
    },
    /// Any other status that does not help.
    #[error(
        "{what}: `{url}` answers with {refusal}{}",
        status_hint(.refusal.status, .login.as_deref())
    )]
    Refused {
        /// What was to be done.
        what: &'static str,
        /// The address, without its query.
        url: String,
        /// Where the credentials were from.
        login: Option<String>,
        /// Its words.
        refusal: Refusal,
    },
    /// The token server does not give a token.
    #[error("no token for `{registry}`: `{realm}` \
        {problem}\n{}", login_hint(.registry, .login.as_deref()))]
    Token {
        /// For which registry.
        registry: String,
        /// The token server.
        realm: String,
        /// What it did.
        problem: String,
        /// Where the credentials were from.
        login: Option<String>,
    },
    /// A redirect that is not followed.
    #[error("{what}: `{from}` leads to `{to}`, which is not followed: {why}")]
    Redirect {
        /// What was to be done.
        what: &'static str,
        /// From where.
        from: String,
        /// To where.
        to: String,
        /// Why not.
        why: String,
    },
    /// Other bytes than they should be.
    #[error(
        "{what}: the registry says `{found}`, but it is `{expected}`: something between here and \
            its storage changes or mixes up data"
    )]
    Digest {
        /// What was compared.
        what: String,
        /// What it should be.
        expected: Digest,
        /// What the registry says.
        found: String,
    },
    /// A response that violates the protocol.
    #[error("{what}: `{url}` {problem}")]
    Answer {
        /// What was to be done.
        what: &'static str,
        /// The address, without its query.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Credentials that should be there cannot be had.
    #[error(transparent)]
    Credentials(#[from] credentials::CredentialsError),
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

impl RegistryError {
    /// Without secrets in what comes from others: the addresses that they lead to, and their
    /// headers.
    pub(super) fn masked(mut self, mask: &Mask) -> Self {
        let texts: &mut [&mut String] = match &mut self {
            Self::Http { url, .. } | Self::Refused { url, .. } => &mut [url],
            Self::Token { realm, problem, .. } => &mut [realm, problem],
            Self::Redirect { from, to, .. } => &mut [from, to],
            Self::Digest { found, .. } => &mut [found],
            Self::Answer { url, problem, .. } => &mut [url, problem],
            Self::Unauthorized { .. } | Self::Credentials(_) | Self::Certificate(_) => &mut [],
        };
        for text in texts {
            **text = mask.apply(text);
        }
        self
    }
}

impl Passing for RegistryError {
    fn is_passing(&self) -> bool {
        match self {
            Self::Http { error, .. } => error.is_passing(),
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

fn http_hint(error: &HttpError, url: &str) -> String {
    match error {
        HttpError::Tls(text)
            if text.contains("InvalidContentType") || text.contains("corrupt message") =>
        {
            "\nif it speaks plain HTTP, say so with `--plain-http`".to_owned()
        }
        HttpError::Tls(_) => "\nif it has a certificate authority of its own, name that with \
            `--ca-file FILE`"
            .to_owned(),
        HttpError::Other(_) if url.starts_with("http:") => {
            "\nif it speaks TLS, leave `--plain-http` off; for one on this machine, name its \
                certificate authority with `--ca-file FILE`"
                .to_owned()
        }
        _ => String::new(),
    }
}

fn login_hint(registry: &str, source: Option<&str>) -> String {
    match source {
        Some(source) => format!(
            "the credentials from {source} were shown: log in again (`docker login {registry}`), \
                or give others"
        ),
        None => format!(
            "none were found: `docker login {registry}`, or `--username NAME --password-stdin`, or \
                LASTSTREAM_REGISTRY_USERNAME and LASTSTREAM_REGISTRY_PASSWORD"
        ),
    }
}

fn status_hint(status: u16, source: Option<&str>) -> String {
    match (status, source) {
        (403, Some(source)) => {
            format!("\nthe credentials from {source} are not allowed to do this")
        }
        (403, None) => "\nno credentials were shown: it may want some".to_owned(),
        (404, _) => {
            "\ncheck the name; some registries want a repository to be created first".to_owned()
        }
        (405, _) => "\nit may be read-only".to_owned(),
        _ => String::new(),
    }
}
