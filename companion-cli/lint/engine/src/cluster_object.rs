//! An object of a cluster, at which findings are reported.

use std::fmt;

/// An object of a cluster, at which findings are reported.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ClusterObject {
    pub kind: String,
    /// Its namespace; none for an object of the whole cluster.
    pub namespace: Option<String>,
    pub name: String,
    /// The kind and name of the object that a controller made of it, if the finding is there.
    pub made: Option<String>,
}

impl ClusterObject {
    /// The path that stands for the object where a file is expected.
    pub fn path(&self) -> String {
        let parts = ["cluster"].into_iter().chain(self.namespace.as_deref());
        let parts: Vec<&str> = parts.chain([self.kind.as_str(), self.name.as_str()]).collect();
        parts.join("/")
    }
}

impl fmt::Display for ClusterObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)?;
        match &self.made {
            Some(made) => write!(f, " (its {made})"),
            None => Ok(()),
        }
    }
}
