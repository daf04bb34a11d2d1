//! The section `streams`: what the listing of streams shows.

use schemars::JsonSchema;
use serde::Deserialize;

/// What `laststream streams` and the gate's `/streams` show of each request, besides its age,
/// status, addresses and route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Streams {
    /// The part of the request, by default `nothing`, because paths may hold personal data: every
    /// client that may ask the gate for the listing reads them.
    pub show: Show,
}

/// A part of the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Show {
    /// Nothing.
    #[default]
    Nothing,
    /// Method, host and path without the query string.
    Path,
}
