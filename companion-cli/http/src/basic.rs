//! A user name and a password as a header.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::Secret;

/// The value of an `Authorization` header for a user name and a password.
#[must_use]
pub fn basic(username: &str, password: &Secret) -> Secret {
    let login = format!("{username}:{}", password.reveal());
    Secret::new(format!("Basic {}", BASE64_STANDARD.encode(login)))
}
