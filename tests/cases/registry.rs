//! `laststream push` and `inspect`, and the other code that fetches from registries: against the
//! real registry, and against one that fails on demand.

mod certificates;
mod faults;
mod inspect;
mod logins;
mod proxies;
mod pull;
mod push;
mod refusals;
mod render;

use std::path::Path;

use crate::lab::{self, EnvoylessCase};
use kit::Outcome;
use kit::command::CommandOutput;
use kit::fake_server::{Answer, Asked, Fault};
use kit::registry::real::USERNAME;
use kit::user::User;

pub(crate) fn cases() -> Vec<EnvoylessCase> {
    [
        certificates::cases(),
        faults::cases(),
        inspect::cases(),
        logins::cases(),
        proxies::cases(),
        pull::cases(),
        push::cases(),
        refusals::cases(),
        render::cases(),
    ]
    .concat()
}

/// Runs `laststream push` with the real module.
fn push(user: &User, arguments: &[&str]) -> Outcome<CommandOutput> {
    let module = lab::module()?;
    user.run(&[&["push", "--module", utf8(&module)], arguments].concat(), "")
}

/// A user with the credentials in the environment.
fn user_with_password(password: &str) -> Outcome<User> {
    let mut user = User::new()?;
    user.set("LASTSTREAM_REGISTRY_USERNAME", USERNAME);
    user.set("LASTSTREAM_REGISTRY_PASSWORD", password);
    Ok(user)
}

/// A response with status 401 and this challenge.
fn unauthorized(challenge: &str) -> Fault {
    Fault::Answer(Answer::new(401).with("www-authenticate", challenge))
}

/// A response with status 401 to a request without credentials.
fn wants_password(asked: &Asked) -> Option<Fault> {
    asked.header("authorization").is_none().then(|| unauthorized("Basic realm=\"r\""))
}

fn utf8(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
