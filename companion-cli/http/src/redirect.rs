//! The rule for redirects: credentials go only to the named origin. After a redirect to another
//! origin they are not sent again, even if it redirects back. A request that began with TLS never
//! continues without it.

use http::Method;

use super::url::Url;
use super::{Client, HttpError, Request, Response};

const MOST: usize = 5;

/// The reason why there is no response after redirects.
#[derive(Debug)]
pub enum FollowError {
    /// A request on the way has no response.
    Http {
        /// The address of that request.
        url: Url,
        /// The reason.
        error: HttpError,
    },
    /// A redirect that this client does not follow.
    Refused {
        /// The address of the request.
        from: String,
        /// The address that the redirect names.
        to: String,
        /// The reason.
        why: RedirectRefusal,
    },
    /// A redirect that names no address.
    Malformed {
        /// The address of the request.
        url: Url,
        /// The problem, as the end of a sentence about that address.
        problem: &'static str,
    },
}

/// The reason why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedirectRefusal {
    /// To a connection without TLS.
    #[error("it leads from https to http")]
    Downgrade,
    /// To another host, where that is not allowed.
    #[error("it is another host")]
    OtherHost,
    /// After too many others.
    #[error("more than {MOST} redirects")]
    TooMany,
}

/// Sends a request and follows redirects. Only if it `may_leave`, another origin than that of
/// `home` may answer.
pub fn follow(
    client: &Client,
    request: &Request<'_>,
    home: &Url,
    may_leave: bool,
) -> Result<Response, FollowError> {
    let mut url = request.url.clone();
    let mut authorization = request.authorization;
    check_redirect(home, &url, home, may_leave)?;
    for _ in 0..=MOST {
        authorization = authorization.filter(|_| url.origin() == home.origin());
        let result = client.send(&Request { url: &url, authorization, ..request.clone() });
        let response = result.map_err(|error| FollowError::Http { url: url.clone(), error })?;
        let keeps_method = matches!(response.status, 307 | 308);
        if !keeps_method && !matches!(response.status, 301..=303) {
            return Ok(response);
        }
        let nonsense = |problem| FollowError::Malformed { url: url.clone(), problem };
        let to = response.header("location").and_then(|location| url.join(location));
        let to = to.ok_or_else(|| nonsense("redirects without a valid `Location`"))?;
        if !keeps_method && !matches!(request.method, Method::GET | Method::HEAD) {
            return Err(nonsense("redirects with a status that turns it into a GET"));
        }
        check_redirect(&url, &to, home, may_leave)?;
        url = to;
    }
    Err(FollowError::Refused {
        from: request.url.to_string(),
        to: url.to_string(),
        why: RedirectRefusal::TooMany,
    })
}

/// Checks that the redirect may be followed.
fn check_redirect(from: &Url, to: &Url, home: &Url, may_leave: bool) -> Result<(), FollowError> {
    let why = if to.is_downgrade_of(from) {
        RedirectRefusal::Downgrade
    } else if !may_leave && to.origin() != home.origin() {
        RedirectRefusal::OtherHost
    } else {
        return Ok(());
    };
    Err(FollowError::Refused { from: from.to_string(), to: to.to_string(), why })
}
