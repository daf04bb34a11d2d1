//! A request to the API server, as errors name it.

use std::fmt;

/// A request to the API server, for error messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    verb: &'static str,
    resource: &'static str,
    namespace: Option<String>,
    name: Option<String>,
    is_of_lint: bool,
}

impl Call {
    pub fn new(verb: &'static str, resource: &'static str) -> Self {
        Self { verb, resource, namespace: None, name: None, is_of_lint: false }
    }

    /// Sets the namespace of the request. Without one, the request is for the whole cluster.
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Says that only `lint` sends the request.
    pub(crate) fn of_lint(mut self) -> Self {
        self.is_of_lint = true;
        self
    }

    /// The ClusterRole in envoyfilter-manifests/rights that allows it.
    pub(crate) fn role(&self) -> &'static str {
        match self.verb {
            "patch" => "laststream-actor",
            _ if self.is_of_lint => "laststream-linter",
            _ => "laststream-reader",
        }
    }

    pub(crate) fn is_on(&self, resource: &str) -> bool {
        self.resource == resource
    }

    pub(crate) fn object(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
        let place = self.namespace.as_ref().map(|name| format!(" in namespace `{name}`"));
        format!("{}{name}{}", self.resource, place.unwrap_or_default())
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` `{}`", self.verb, self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace `{namespace}`"),
            None => f.write_str(" in the whole cluster"),
        }
    }
}
