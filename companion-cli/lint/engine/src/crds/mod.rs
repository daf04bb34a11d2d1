//! The API server's verdict on an object, from the schemas of the CRDs that a mesh's resources
//! belong to. The rules that report verdicts are in `rules::schema`.
//!
//! | where | what |
//! |---|---|
//! | `table` | the schemas of released versions, and those of `--crds` files |
//! | `structural` | Kubernetes' structural schemas as JSON Schema, with their defaults |
//! | `go_pattern` | the patterns in a schema, in Go's syntax |
//! | `cel` | the validation rules in a schema, which are CEL expressions |
//! | `verdict` | one object against its schema |

mod cel;
mod go_pattern;
mod structural;
mod table;
mod verdict;

pub(crate) use table::has_field;
pub use table::{CrdError, Definition, Definitions};
pub(crate) use verdict::{Fault, Validators, Violation};
