//! The address of a listener as users write it: `http://127.0.0.1:16091`.

use std::fmt;
use std::str::FromStr;

use http::Uri;

use super::DEFAULT_ADDRESS;
use laststream_base::env_vars::{LASTSTREAM_GATE, Lookup};

/// An `http` URL without credentials, query and fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

/// A text that is not such an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}: write it like `{DEFAULT_ADDRESS}`")]
pub struct NotAnAddress(&'static str);

impl Address {
    pub fn with(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl FromStr for Address {
    type Err = NotAnAddress;

    // The error does not repeat the text, because it may contain a password.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("https://") {
            return Err(NotAnAddress(
                "gates and proxies beside an app speak plain HTTP, not `https`",
            ));
        }
        if !text.starts_with("http://") {
            return Err(NotAnAddress("an address begins with `http://`"));
        }
        let uri: Uri = text.parse().map_err(|_| NotAnAddress("this is not a URL"))?;
        let authority = uri.authority().ok_or(NotAnAddress("there is no host in it"))?;
        if authority.as_str().contains('@') {
            return Err(NotAnAddress("user names and passwords do not belong into an address"));
        }
        if authority.host().is_empty() || authority.as_str().ends_with(':') {
            return Err(NotAnAddress("its host or port is empty"));
        }
        if authority.port_u16() == Some(0)
            || (authority.port().is_none() && authority.as_str().len() != authority.host().len())
        {
            return Err(NotAnAddress("its port is not a number"));
        }
        if text.contains(['?', '#']) {
            return Err(NotAnAddress("it ends with its path, without `?` and `#`"));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The gate's address from the variable `LASTSTREAM_GATE`, or the default one.
pub fn from_vars(lookup: Lookup<'_>) -> Result<Address, NotAnAddress> {
    match lookup(LASTSTREAM_GATE) {
        Some(value) => value.to_str().ok_or(NotAnAddress("this is not a URL"))?.parse(),
        None => DEFAULT_ADDRESS.parse(),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn valid_addresses_are_accepted() {
        for (text, expected) in [
            ("http://127.0.0.1:16091", "http://127.0.0.1:16091/status"),
            ("http://127.0.0.1:16091/", "http://127.0.0.1:16091/status"),
            ("http://[::1]:16091", "http://[::1]:16091/status"),
            ("http://localhost", "http://localhost/status"),
            (
                "http://localhost:8001/api/pods/a:16091/proxy/",
                "http://localhost:8001/api/pods/a:16091/proxy/status",
            ),
        ] {
            assert_eq!(
                text.parse::<Address>().map(|address| address.with("/status")).as_deref(),
                Ok(expected)
            );
        }
    }

    #[test]
    fn invalid_addresses_are_refused_and_passwords_not_repeated() {
        for text in [
            "",
            "127.0.0.1:16091",
            "localhost:16091",
            "https://127.0.0.1:16091",
            "http://",
            "http://:16091",
            "http://host:",
            "http://host:0",
            "http://host:65536",
            "http://host:port",
            "http://user:hunter2@host",
            "http://host?x",
            "http://host/#x",
            "http://ho st",
            "http://host\n",
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains(DEFAULT_ADDRESS) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn the_usual_address_has_the_usual_port() {
        assert_eq!(DEFAULT_ADDRESS, format!("http://127.0.0.1:{}", laststream_base::ports::GATE));
    }

    #[test]
    fn the_environment_names_the_address() {
        let of = |value: Option<&str>| {
            let lookup = |name: &str| value.filter(|_| name == LASTSTREAM_GATE).map(OsString::from);
            from_vars(&lookup).map(|address| address.to_string())
        };
        assert_eq!(of(None).as_deref(), Ok(DEFAULT_ADDRESS));
        assert_eq!(of(Some("http://10.0.0.1:1")).as_deref(), Ok("http://10.0.0.1:1"));
        assert!(of(Some("gate")).is_err());
    }
}
