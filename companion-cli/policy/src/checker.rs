//! The problems of a policy, and the syntax of single values: names, hosts, labels, addresses.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::error::PolicyProblem;
use laststream_base::{names, ports};

/// The problems so far. An invalid value is replaced by a harmless one in the resulting policy,
/// which is then discarded.
#[derive(Default)]
pub(crate) struct Checker(pub(crate) Vec<PolicyProblem>);

/// Whether a text has neither white space nor control characters in it, and is not empty.
pub(crate) fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.contains(|character: char| character.is_whitespace() || character.is_control())
}

/// Whether a text is the name of an environment variable; otherwise why not.
pub(crate) fn variable(name: &str, example: &str) -> Result<(), String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !name.is_empty() && name.bytes().all(is_word) {
        return Ok(());
    }
    Err(format!("is not the name of an environment variable, such as `{example}`"))
}

impl Checker {
    pub(crate) fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(PolicyProblem::new(path, message));
    }

    /// Checks that the policy names either a Gateway or a class.
    pub(crate) fn gateway_or_class(
        &mut self,
        path: &str,
        gateway: Option<&str>,
        class: Option<&str>,
    ) {
        for (field, name) in [("gateway", gateway), ("class", class)] {
            if let Some(name) = name {
                self.dns_label(&format!("{path}.{field}"), name);
            }
        }
        match (gateway, class) {
            (None, None) => self.problem(path, "has neither `gateway` nor `class`: write one"),
            (Some(_), Some(_)) => self.problem(path, "has both `gateway` and `class`: keep one"),
            _ => {}
        }
    }

    pub(crate) fn taken_port(&mut self, port: u16, owner: &str) {
        let usual = ports::GATE;
        self.problem(
            "gate.port",
            format!("{port} is one of {owner}'s own ports: take another one, such as {usual}"),
        );
    }

    pub(crate) fn image(&mut self, path: &str, name: &str) {
        if !is_word(name) {
            self.problem(path, format!("`{name}` is not the name of an image"));
        }
    }

    pub(crate) fn dns_label(&mut self, path: &str, name: &str) {
        if let Err(why) = names::label(name) {
            self.problem(path, format!("`{name}` {why}"));
        }
    }

    /// The name of most objects, such as Secrets and Deployments.
    pub(crate) fn dns_subdomain(&mut self, path: &str, name: &str) {
        if let Err(why) = names::subdomain(name) {
            self.problem(path, format!("`{name}` {why}"));
        }
    }

    pub(crate) fn host(&mut self, path: &str, host: &str) {
        let part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if !host.split('.').all(part) || host.len() > 253 {
            self.problem(
                path,
                format!(
                    "`{host}` is not the name of a host, such as `httpbin` or \
                `httpbin.default.svc.cluster.local`"
                ),
            );
        }
    }

    pub(crate) fn labels(&mut self, path: &str, labels: &BTreeMap<String, String>) {
        let is_word = |text: &str| {
            let ends = text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && text.ends_with(|c: char| c.is_ascii_alphanumeric());
            ends && text.len() <= 63
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let is_prefix = |text: &str| {
            !text.is_empty()
                && text.len() <= 253
                && text.bytes().all(|byte| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)
                })
        };
        for (key, value) in labels {
            let (prefix, name) = key
                .rsplit_once('/')
                .map_or((None, key.as_str()), |(prefix, name)| (Some(prefix), name));
            let message = if !is_word(name) || !prefix.is_none_or(is_prefix) {
                format!("`{key}` is not the name of a label")
            } else if !value.is_empty() && !is_word(value) {
                format!("`{value}` is not the value of a label")
            } else {
                continue;
            };
            self.problem(&format!("{path}.{key}"), message);
        }
    }

    pub(crate) fn address(&mut self, path: &str, address: &str) {
        match address.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => {}
            _ => self.problem(
                path,
                format!(
                    "`{address}` is not an address with a port, such as \
                `127.0.0.1:8080` or `[::1]:8080`"
                ),
            ),
        }
    }
}
