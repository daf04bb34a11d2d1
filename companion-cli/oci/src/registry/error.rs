//! Errors of registry requests. Each text names the object and what to do. None holds a secret.

use std::time::Duration;

use super::credentials;
use laststream_base::digest::Digest;
use laststream_http::mask::Mask;
use laststream_http::retry::Retryable;
use laststream_http::{CertificateError, HttpError};

/// A response that refuses the request.
#[derive(Debug)]
pub struct Refusal {
    pub status: u16,
    /// The registry's own message, made safe to print.
    pub message: String,
    /// The pause that its `Retry-After` asks for.
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

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    #[error("{what}: `{url}`: {error}")]
    Http {
        what: &'static str,
        /// The address, without its query.
        url: String,
        error: HttpError,
    },
    #[error("{what}: `{registry}` wants credentials: \
        {refusal}\n{}", login_hint(.registry, .login.as_deref()))]
    Unauthorized {
        what: &'static str,
        registry: String,
        /// The source of the rejected credentials, if there are any.
        login: Option<String>,
        refusal: Refusal,
    },
    #[error(
        "{what}: `{url}` answers with {refusal}{}",
        status_hint(.refusal.status, .login.as_deref())
    )]
    Refused {
        what: &'static str,
        /// The address, without its query.
        url: String,
        /// The source of the credentials, if there are any.
        login: Option<String>,
        refusal: Refusal,
    },
    #[error("no token for `{registry}`: `{realm}` \
        {problem}\n{}", login_hint(.registry, .login.as_deref()))]
    Token {
        registry: String,
        realm: String,
        /// The problem, as the end of a sentence about the token server.
        problem: String,
        /// The source of the credentials, if there are any.
        login: Option<String>,
    },
    #[error("{what}: `{from}` leads to `{to}`, which is not followed: {why}")]
    Redirect { what: &'static str, from: String, to: String, why: String },
    #[error(
        "{what}: the registry says `{found}`, but it is `{expected}`: something between here and \
            its storage changes or mixes up data"
    )]
    Digest {
        /// The content whose digest was compared.
        what: String,
        expected: Digest,
        /// The digest of the content that came, or that the registry names.
        found: String,
    },
    #[error("{what}: `{url}` {problem}")]
    Answer {
        what: &'static str,
        /// The address, without its query.
        url: String,
        /// The problem, as the end of a sentence about the address.
        problem: String,
    },
    #[error(transparent)]
    Credentials(#[from] credentials::CredentialsError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// A setting of the client that may help after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// HTTP without TLS.
    PlainHttp,
    /// A certificate authority to trust.
    Authority,
    Tls,
    Login,
}

impl RegistryError {
    /// The setting that may help.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Http { error: HttpError::Tls(text), .. } => {
                let is_plain =
                    text.contains("InvalidContentType") || text.contains("corrupt message");
                Some(if is_plain { Remedy::PlainHttp } else { Remedy::Authority })
            }
            Self::Http { error: HttpError::Other(_), url, .. } if url.starts_with("http:") => {
                Some(Remedy::Tls)
            }
            Self::Refused { refusal, .. } if refusal.message.contains("HTTPS server") => {
                Some(Remedy::Tls)
            }
            Self::Unauthorized { login: None, .. } | Self::Token { login: None, .. } => {
                Some(Remedy::Login)
            }
            _ => None,
        }
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
            Self::Unauthorized { .. } | Self::Credentials(_) | Self::Certificate(_) => &mut [],
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
            "the credentials from {source} were shown: log in again (`docker login {registry}`), \
                or give others"
        ),
        None => format!("none were found: `docker login {registry}`"),
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
