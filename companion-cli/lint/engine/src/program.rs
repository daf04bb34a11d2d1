//! What files may say of the program that reads them.

use crate::words::Words;

/// The program whose rules read the files.
#[derive(Debug)]
pub struct Program {
    pub(crate) name: &'static str,
    /// Annotations whose text is YAML or JSON, beside Istio's.
    pub(crate) annotations: &'static [&'static str],
    pub(crate) words: Words,
    /// The codes of its rules.
    pub(crate) codes: Vec<&'static str>,
}
