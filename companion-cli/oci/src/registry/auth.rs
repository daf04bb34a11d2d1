//! Authorization: the header of a request, and how to get it from a challenge.

use std::cell::RefCell;
use std::collections::HashMap;

use http::Method;
use serde::Deserialize;
use url::form_urlencoded;

use super::Registry;
use super::challenge::Challenge;
use super::credentials::{FoundLogin, Login, Secret};
use super::error::RegistryError;
use super::error_text::ErrorText;
use super::response::RegistryResponse;
use laststream_http::url::Url;
use laststream_http::{Request, basic};

/// The limit for a token server's response in bytes.
const LARGEST_TOKEN: u64 = 1 << 20;
const WHAT: &str = "asking for a token";

/// Permitted actions in a repository, as token servers write them:
/// `repository:team/laststream:pull,push`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Scope(String);

impl Scope {
    pub(super) fn pull(repository: &str) -> Self {
        Self(format!("repository:{repository}:pull"))
    }

    pub(super) fn push(repository: &str) -> Self {
        Self(format!("repository:{repository}:pull,push"))
    }

    /// Adds the scopes that the registry itself names: behind a proxy its repositories can have
    /// other names.
    fn with(&self, named: Option<&str>) -> Vec<String> {
        let scopes = named.into_iter().flat_map(str::split_whitespace);
        let missing = scopes.filter(|scope| !self.covers(scope));
        [self.0.as_str()].into_iter().chain(missing).map(str::to_owned).collect()
    }

    fn covers(&self, scope: &str) -> bool {
        let Some((name, actions)) = scope.rsplit_once(':') else { return false };
        self.0.rsplit_once(':').is_some_and(|(known, allowed)| {
            known == name
                && actions.split(',').all(|action| allowed.split(',').any(|known| known == action))
        })
    }
}

/// The value of an `Authorization` header.
#[derive(Clone)]
pub(super) struct Authorization {
    pub(super) header: Secret,
    /// Whether another attempt would give the same value, so that a 401 is final.
    pub(super) is_fixed: bool,
}

/// The authorization for each scope.
#[derive(Default)]
pub(super) struct Cache(RefCell<HashMap<Scope, Authorization>>);

impl Cache {
    pub(super) fn get(&self, scope: &Scope) -> Option<Authorization> {
        self.0.borrow().get(scope).cloned()
    }

    /// The values of all headers, which errors must not show.
    pub(super) fn headers(&self) -> Vec<Secret> {
        self.0.borrow().values().map(|authorization| authorization.header.clone()).collect()
    }

    fn put(&self, scope: &Scope, authorization: &Authorization) {
        self.0.borrow_mut().insert(scope.clone(), authorization.clone());
    }
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Registry<'_> {
    /// The authorization that answers the challenges of a 401; `None` if no credentials fit them.
    pub(super) fn authorize(
        &self,
        challenges: &[Challenge],
        repository: &str,
        scope: &Scope,
    ) -> Result<Option<Authorization>, RegistryError> {
        let login = self.login(repository)?;
        let bearer =
            challenges.iter().find(|challenge| matches!(challenge, Challenge::Bearer { .. }));
        let authorization =
            match (bearer.or(challenges.first()), login.as_ref().map(|found| &found.login)) {
                (Some(Challenge::Bearer { realm, service, scope: named }), _) => {
                    let header = self.token(
                        realm,
                        service.as_deref(),
                        &scope.with(named.as_deref()),
                        login.as_ref(),
                    )?;
                    Authorization { header, is_fixed: false }
                }
                (Some(Challenge::Basic { .. }), Some(Login::Password { username, password })) => {
                    Authorization { header: basic(username, password), is_fixed: true }
                }
                _ => return Ok(None),
            };
        self.authorizations.put(scope, &authorization);
        Ok(Some(authorization))
    }

    /// The realm in a challenge of this registry for which Istio's agent, from 1.30 on, fetches
    /// nothing from it, whatever credentials it has.
    pub fn realm_that_istio_refuses(&self) -> Option<String> {
        self.refused_realm.borrow().clone()
    }

    pub(super) fn note_realms(&self, challenges: &[Challenge]) {
        let mut realms = challenges.iter().filter_map(Challenge::realm);
        let is_refused = |realm: &&str| !Url::parse(realm).is_some_and(|url| url.is_public());
        self.refused_realm.replace(realms.find(is_refused).map(str::to_owned));
    }

    /// Looks for credentials once, because a helper may be slow or prompt the user.
    fn login(&self, repository: &str) -> Result<Option<FoundLogin>, RegistryError> {
        let mut logins = self.logins.borrow_mut();
        if let Some(login) = logins.get(repository) {
            return Ok(login.clone());
        }
        let login = self.sources.find(&self.name, repository).map_err(RegistryError::Setup)?;
        logins.insert(repository.to_owned(), login.clone());
        Ok(login)
    }

    /// The source of the credentials that were sent, for messages.
    pub(super) fn login_shown(&self, repository: &str) -> Option<String> {
        let logins = self.logins.borrow();
        logins.get(repository).and_then(Option::as_ref).map(|found| found.source.clone())
    }

    fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scopes: &[String],
        login: Option<&FoundLogin>,
    ) -> Result<Secret, RegistryError> {
        let refused = |problem: String| RegistryError::Token {
            registry: self.name.clone(),
            realm: Url::parse(realm)
                .map_or_else(|| "(its address makes no sense)".to_owned(), |url| url.to_string()),
            problem,
            login: login.map(|found| found.source.clone()),
        };
        let url = Url::parse(realm).ok_or_else(|| refused("is no address".to_owned()))?;
        if url.is_downgrade_of(&self.home) {
            return Err(refused(
                "is without TLS, and the registry is not: nothing is sent there".to_owned(),
            ));
        }
        let answer = self.ask_for_token(&url, service, scopes, login)?;
        if !answer.is_success() {
            return Err(self.token_refused(answer, refused));
        }
        // The parser's error is dropped, because it may quote the token.
        let token: Option<Token> = serde_json::from_slice(&answer.body).ok();
        let token = token
            .and_then(|token| token.token.or(token.access_token))
            .filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| refused("answers without a token".to_owned()))?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refused("gives a token that cannot be sent".to_owned()));
        }
        Ok(Secret::new(format!("Bearer {token}")))
    }

    fn token_refused(
        &self,
        answer: RegistryResponse,
        refused: impl Fn(String) -> RegistryError,
    ) -> RegistryError {
        if matches!(answer.status, 408 | 429 | 500..=599) {
            return RegistryError::Refused {
                what: WHAT,
                url: answer.url.to_string(),
                login: None,
                refusal: self.refusal(&answer, ErrorText::OfTokenServer),
            };
        }
        refused(format!("answers with {}", self.refusal(&answer, ErrorText::OfTokenServer)))
    }

    /// Asks for a token. An identity token is posted; servers that do not support that get it as a
    /// password.
    fn ask_for_token(
        &self,
        url: &Url,
        service: Option<&str>,
        scopes: &[String],
        login: Option<&FoundLogin>,
    ) -> Result<RegistryResponse, RegistryError> {
        let bearer = match login.map(|found| &found.login) {
            Some(login @ Login::IdentityToken { token, .. }) => {
                let answer = self.post_identity(url, service, scopes, token)?;
                if !matches!(answer.status, 401 | 404 | 405) {
                    return Ok(answer);
                }
                Some(login.basic())
            }
            login => login.map(Login::basic),
        };
        let mut url = service.map_or(url.clone(), |service| url.clone().with("service", service));
        for scope in scopes {
            url = url.with("scope", scope);
        }
        self.ask_token_server(&Request { authorization: bearer.as_ref(), ..Request::get(&url) })
    }

    fn post_identity(
        &self,
        url: &Url,
        service: Option<&str>,
        scopes: &[String],
        token: &Secret,
    ) -> Result<RegistryResponse, RegistryError> {
        let service = service.unwrap_or(&self.name);
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "refresh_token")
            .append_pair("client_id", "laststream")
            .append_pair("service", service)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("refresh_token", token.reveal())
            .finish();
        let headers = [("content-type", "application/x-www-form-urlencoded".to_owned())];
        let body = Some(form.as_bytes());
        let request = Request::get(url);
        self.ask_token_server(&Request { method: Method::POST, headers: &headers, body, ..request })
    }

    /// Sends a request to a token server. Redirects are not followed, because it holds a secret.
    fn ask_token_server(&self, ask: &Request<'_>) -> Result<RegistryResponse, RegistryError> {
        let answer = self
            .http
            .send(ask)
            .and_then(|response| RegistryResponse::read(response, LARGEST_TOKEN));
        let answer = answer.map_err(|error| RegistryError::of_http(WHAT, ask.url, error))?;
        if !(300..400).contains(&answer.status) {
            return Ok(answer);
        }
        let to = answer.header("location").and_then(|location| ask.url.join(location));
        let to = to.map_or_else(|| "nowhere".to_owned(), |to| to.to_string());
        Err(RegistryError::Redirect {
            what: WHAT,
            from: ask.url.to_string(),
            to,
            why: "credentials go to the token server that the registry names, and to no other"
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_asked_for_once() {
        let scope = Scope::push("team/a");
        let own = "repository:team/a:pull,push";
        assert_eq!(scope.with(None), [own]);
        assert_eq!(scope.with(Some("repository:team/a:pull")), [own]);
        for other in ["repository:proxied/team/a:push,pull", "repository:team/a:delete"] {
            assert_eq!(scope.with(Some(other)), [own, other]);
        }
    }
}
