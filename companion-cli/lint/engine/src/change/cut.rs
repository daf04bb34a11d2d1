//! A change beside the proxies of a cluster: how many streams it would cut now.

use std::collections::BTreeMap;

use manifest_text::istio::ISTIO_DRAIN;
use manifest_text::time_span::TimeSpan;

use super::reached::Reached;
use super::running::{ProxyRole, ProxyStreams, RunningProxy};
use super::{GATEWAY_DRAIN, proxies};
use crate::Linter;
use crate::{Assume, Finding, Inputs, SourceError, SourceFile};

/// The files before and after a change.
#[derive(Debug)]
pub struct Change {
    linter: &'static Linter,
    inputs: Inputs,
    /// The proxies that each part reaches whose listeners or filter chains it replaces.
    replaced: Vec<Reached>,
}

/// The streams of one workload that a change would cut now.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct CutStreams {
    pub workload: String,
    pub pods: u64,
    pub streams: u64,
    /// Those that are older than the drain time, of the listed ones.
    pub older: u64,
    /// Those that no gate has listed, so that their age is not known.
    pub unlisted: u64,
    pub drain_seconds: u64,
    /// Why streams may be missing here, each with its number of pods.
    pub unknown: BTreeMap<String, u64>,
}

impl Change {
    /// Reads the files.
    ///
    /// # Errors
    /// They hold more values than allowed.
    pub fn read(
        linter: &'static Linter,
        old: Vec<SourceFile>,
        new: Vec<SourceFile>,
        assume: Assume,
    ) -> Result<Self, SourceError> {
        let mut inputs = Inputs::of_change(&linter.program, old, new, assume)?;
        let (parts, reached) = super::parts(&inputs);
        let pairs = parts.iter().zip(reached).filter(|(part, _)| part.effect.replaces());
        let replaced = pairs.map(|(_, reached)| reached).collect();
        inputs.changes = parts;
        Ok(Self { linter, inputs, replaced })
    }

    /// The effects in Envoy, by file and line.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.linter.findings_of(&self.inputs, self.linter.of_changes())
    }

    /// Whether the change replaces listeners or filter chains of this proxy.
    #[must_use]
    pub fn reaches(&self, proxy: &RunningProxy) -> bool {
        self.reached(proxy).next().is_some()
    }

    fn reached(&self, proxy: &RunningProxy) -> impl Iterator<Item = &Reached> {
        self.replaced.iter().filter(|reached| reached.has(proxy))
    }

    /// The streams that the change would cut, by workload.
    #[must_use]
    pub fn cut(&self, proxies: &[(RunningProxy, ProxyStreams)]) -> Vec<CutStreams> {
        let of_files = proxies::common_time(&self.inputs).unwrap_or(ISTIO_DRAIN);
        let mut rows: BTreeMap<&str, CutStreams> = BTreeMap::new();
        for (proxy, streams) in proxies.iter().filter(|(proxy, _)| self.reaches(proxy)) {
            let otherwise =
                if proxy.role == ProxyRole::EnvoyGateway { GATEWAY_DRAIN } else { of_files };
            let drain = proxy.drain.unwrap_or(otherwise);
            let row = rows.entry(&proxy.workload).or_insert_with(|| CutStreams {
                workload: proxy.workload.clone(),
                drain_seconds: drain.whole_seconds(),
                ..CutStreams::default()
            });
            let is_cut = |scope: &str| self.reached(proxy).any(|reached| reached.has_scope(scope));
            row.add(drain, streams, is_cut);
        }
        rows.into_values().collect()
    }
}

impl CutStreams {
    fn add(&mut self, drain: TimeSpan, streams: &ProxyStreams, is_cut: impl Fn(&str) -> bool) {
        let listed: Vec<u64> =
            streams.listed.iter().filter(|(scope, _)| is_cut(scope)).map(|(_, age)| *age).collect();
        let in_flight = streams.in_flight.iter().filter(|(scope, _)| is_cut(scope));
        let in_flight = in_flight.map(|(_, count)| *count).fold(0, u64::saturating_add);
        let count = in_flight.max(listed.len() as u64);
        self.pods += 1;
        self.streams = self.streams.saturating_add(count);
        self.unlisted = self.unlisted.saturating_add(count - listed.len() as u64);
        self.older += listed.iter().filter(|age| **age >= drain.millis()).count() as u64;
        self.drain_seconds = self.drain_seconds.min(drain.whole_seconds());
        if let Some(why) = &streams.unknown {
            *self.unknown.entry(why.clone()).or_default() += 1;
        }
    }
}
