//! One header that tells the original scheme.

use super::scheme::Scheme;
use super::{cf_visitor, rfc7239};
use crate::config::wire::{Element, Form};
use crate::headers::Headers;
use crate::parse::digits;

/// The schemes of ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// The ports of https.
    pub https: Vec<u16>,
    /// The ports of http.
    pub http: Vec<u16>,
    /// The ports that are written for https and for http.
    written: [String; 2],
}

impl Ports {
    pub(crate) fn new(https: Vec<u16>, http: Vec<u16>) -> Self {
        let text = |ports: &[u16]| ports.first().map_or_else(String::new, |port| port.to_string());
        Self { written: [text(&https), text(&http)], https, http }
    }

    pub(crate) fn scheme(&self, port: u16) -> Option<Scheme> {
        if self.https.contains(&port) {
            Some(Scheme::Https)
        } else if self.http.contains(&port) {
            Some(Scheme::Http)
        } else {
            None
        }
    }

    pub(crate) fn written(&self, scheme: Scheme) -> &[u8] {
        let [https, http] = &self.written;
        match scheme {
            Scheme::Https => https.as_bytes(),
            Scheme::Http => http.as_bytes(),
        }
    }

    /// Only the canonical decimal form is a port. Load balancers write no other, and back ends
    /// disagree on the others.
    pub(crate) fn read(word: &[u8]) -> Option<u16> {
        let has_leading_zero = word.len() > 1 && word.starts_with(b"0");
        if has_leading_zero { None } else { digits(word) }
    }
}

/// The statement of one header, or of one element of it, about the scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// It is missing, empty, or about something else.
    Nothing,
    /// It names this scheme.
    Scheme(Scheme),
    /// It breaks its own grammar, or its elements contradict each other.
    Unclear,
}

impl From<Option<Scheme>> for Says {
    fn from(scheme: Option<Scheme>) -> Self {
        scheme.map_or(Self::Unclear, Self::Scheme)
    }
}

/// A header to read, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name, in lower case.
    pub header: String,
    /// How its value tells the scheme.
    pub form: Form,
    /// Which of its elements counts.
    pub element: Element,
}

impl Source {
    pub(crate) fn read(&self, headers: Headers<'_>, ports: &Ports) -> Says {
        headers
            .all(&self.header)
            .fold(None, |so_far, line| self.line(so_far, line, ports))
            .unwrap_or(Says::Nothing)
    }

    /// The result after one more line of the header; none if there was no element yet.
    fn line(&self, so_far: Option<Says>, line: &[u8], ports: &Ports) -> Option<Says> {
        match self.form {
            Form::Forwarded => match rfc7239::protos(line) {
                Ok(protos) => protos
                    .into_iter()
                    .fold(so_far, |so_far, proto| self.join(so_far, forwarded(proto))),
                // A broken line may hide an element before or after the one that counts.
                Err(rfc7239::Malformed) => Some(Says::Unclear),
            },
            Form::CfVisitor | Form::Present if trim(line).is_empty() => so_far,
            Form::CfVisitor | Form::Present => self.join(so_far, whole(self.form, trim(line))),
            form => {
                let words =
                    line.split(|&byte| byte == b',').map(trim).filter(|word| !word.is_empty());
                words.fold(so_far, |so_far, word| self.join(so_far, one(form, word, ports)))
            }
        }
    }

    /// Combines the result so far with the next element. An element that names no scheme still
    /// counts as an element: another must not take its place.
    fn join(&self, so_far: Option<Says>, next: Says) -> Option<Says> {
        Some(match (so_far, self.element) {
            (None, _) | (_, Element::Last) => next,
            (Some(so_far), Element::First) => so_far,
            (Some(so_far), Element::Agree) if so_far == next => so_far,
            (Some(_), Element::Agree) => Says::Unclear,
        })
    }
}

/// The statement on which two sources agree.
pub(crate) fn agreed(one: Says, other: Says) -> Says {
    match (one, other) {
        (Says::Nothing, only) | (only, Says::Nothing) => only,
        (one, other) if one == other => one,
        _ => Says::Unclear,
    }
}

fn forwarded(proto: Option<Vec<u8>>) -> Says {
    proto.map_or(Says::Nothing, |proto| Scheme::from_word(&proto).into())
}

/// Removes the optional white space of HTTP (RFC 9110, section 5.6.3): spaces and tabs. Anything
/// else belongs to the value.
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// A value that is not a list.
fn whole(form: Form, value: &[u8]) -> Says {
    match form {
        _ if value.is_empty() => Says::Nothing,
        Form::CfVisitor => cf_visitor::scheme(value).into(),
        _ => Says::Scheme(Scheme::Https),
    }
}

/// One element of a list.
fn one(form: Form, word: &[u8], ports: &Ports) -> Says {
    match form {
        _ if word.is_empty() => Says::Nothing,
        Form::Port => match Ports::read(word) {
            Some(port) => ports.scheme(port).map_or(Says::Nothing, Says::Scheme),
            None => Says::Unclear,
        },
        Form::Flag => flag(word).into(),
        _ => Scheme::from_word(word).into(),
    }
}

fn flag(word: &[u8]) -> Option<Scheme> {
    let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    if is(&["on", "1", "true", "yes"]) {
        Some(Scheme::Https)
    } else if is(&["off", "0", "false", "no"]) {
        Some(Scheme::Http)
    } else {
        None
    }
}
