//! Envoy's admin interface.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::h1::{Request, Response, once};
use crate::{Context as _, Outcome};

/// The admin interface at an address.
#[derive(Debug, Clone, Copy)]
pub struct Admin(pub SocketAddr);

impl Admin {
    pub async fn get(self, path: &str) -> Outcome<Response> {
        let request = Request::get(path).header("connection", "close");
        once(self.0, &request).await.with_context(|| format!("admin GET {path}"))
    }

    pub async fn post(self, path: &str) -> Outcome<Response> {
        let request = Request::post(path, "").header("connection", "close");
        once(self.0, &request).await.with_context(|| format!("admin POST {path}"))
    }

    /// Every counter and gauge.
    pub async fn stats(self) -> Outcome<BTreeMap<String, u64>> {
        Ok(parse_stats(&self.get("/stats").await?.expect(200)?.text()))
    }

    /// One counter or gauge; nothing when Envoy does not know it.
    pub async fn stat(self, name: &str) -> Outcome<Option<u64>> {
        let answer = self.get(&format!("/stats?filter={}", exact(name))).await?.expect(200)?;
        Ok(parse_stats(&answer.text()).remove(name))
    }
}

fn parse_stats(text: &str) -> BTreeMap<String, u64> {
    let pairs = text.lines().filter_map(|line| line.rsplit_once(": "));
    pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

/// A regular expression that matches exactly this name, percent-encoded for a query.
fn exact(name: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let escaped = name.chars().map(|character| {
        if plain(character) { character.to_string() } else { format!("[{character}]") }
    });
    format!("%5E{}$", escaped.collect::<String>().replace('[', "%5B").replace(']', "%5D"))
}
