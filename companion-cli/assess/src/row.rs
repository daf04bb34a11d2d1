//! Workloads with what their next stop cuts.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::moment::Certainty;
use crate::proxy::ProxyKind;
use crate::stop::{Stop, Verdict};

/// The object that makes the pods of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Workload {
    pub kind: String,
    pub namespace: Option<String>,
    /// Empty if the file does not say it, as in the values of a chart.
    pub name: String,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        match (namespace, name.as_str()) {
            (_, "") => f.write_str(kind),
            (Some(namespace), name) => write!(f, "{kind} {namespace}/{name}"),
            (None, name) => write!(f, "{kind} {name}"),
        }
    }
}

/// A workload with what its next stop cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub workload: Workload,
    /// The file and the line; none for an object of a cluster.
    pub place: Option<(String, u32)>,
    /// The number of its pods that run; none for a file.
    pub pods: Option<usize>,
    /// The grace period in seconds; none if it is filled in later.
    pub grace: Option<u64>,
    pub proxy: ProxyKind,
    /// Whether a Job makes the pods.
    pub is_job: bool,
    pub stop: Stop,
}

impl Row {
    /// The kind of the proxy in tables and messages.
    #[must_use]
    pub fn proxy_name(&self) -> String {
        let name = self.proxy.name();
        if self.is_job { format!("{name} of a Job") } else { name.to_owned() }
    }

    /// One sentence on what the next stop cuts.
    fn sentence(&self) -> String {
        let Self { workload, stop, .. } = self;
        format!("{workload} ({}): its next stop: {}", self.proxy_name(), stop.why)
    }

    /// Whether the sentence is new to a user: where laststream is, or no proxy, it is not.
    fn is_without_laststream(&self) -> bool {
        self.proxy != ProxyKind::AmbientApp && !self.stop.is_held
    }

    fn json(&self) -> Value {
        let Stop { ended_by, cut, idle, stream, is_held, verdict, why, next } = &self.stop;
        let (file, line) = self.place.as_ref().map(|(file, line)| (file, line)).unzip();
        json!({
            "workload": self.workload,
            "file": file,
            "line": line,
            "pods": self.pods,
            "grace_seconds": self.grace,
            "proxy": self.proxy,
            "job": self.is_job,
            "ended_by": ended_by,
            "longest_request_ms": cut.millis,
            "certainty": cut.certainty,
            "idle_connection": idle,
            "long_stream": stream,
            "laststream": is_held,
            "verdict": verdict,
            "why": why,
            "next": next,
        })
    }
}

/// The rows of all workloads with a proxy, what is lost first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assessment {
    pub rows: Vec<Row>,
    /// The number of workloads in which no proxy was seen, by namespace.
    pub without_proxy: BTreeMap<Option<String>, usize>,
}

impl Assessment {
    /// Sorts the rows by what is lost.
    #[must_use]
    pub fn of(mut rows: Vec<Row>, without_proxy: BTreeMap<Option<String>, usize>) -> Self {
        rows.sort_by(|one, two| {
            let key = |row: &Row| (row.proxy == ProxyKind::AmbientApp, row.stop.cut);
            key(one).cmp(&key(two)).then_with(|| one.workload.cmp(&two.workload))
        });
        Self { rows, without_proxy }
    }

    /// Leaves out what is not in this namespace.
    pub fn keep_namespace(&mut self, name: &str) {
        self.rows.retain(|row| row.workload.namespace.as_deref() == Some(name));
        self.without_proxy.retain(|namespace, _| namespace.as_deref() == Some(name));
    }

    /// Takes in the rows of another part of a cluster.
    pub fn add(&mut self, other: Self) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.extend(other.rows);
        let mut without_proxy = std::mem::take(&mut self.without_proxy);
        for (namespace, count) in other.without_proxy {
            *without_proxy.entry(namespace).or_default() += count;
        }
        *self = Self::of(rows, without_proxy);
    }

    fn number_without_proxy(&self) -> usize {
        self.without_proxy.values().sum()
    }

    /// The rows that lose a request of so many milliseconds, as far as the settings show.
    pub fn losing(&self, millis: u64) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.stop.loses(millis))
    }

    /// Below the table: the verdict, the reason and the next step of each group of workloads that
    /// share them, with the workloads as text: at most three names.
    #[must_use]
    pub fn steps(&self) -> Vec<String> {
        const NAMED: usize = 3;
        let mut groups: Vec<(&Stop, Vec<String>)> = Vec::new();
        for row in &self.rows {
            let (stop, name) = (&row.stop, row.workload.to_string());
            let is_same = |other: &Stop| {
                (&other.why, &other.next, other.verdict) == (&stop.why, &stop.next, stop.verdict)
            };
            match groups.iter_mut().find(|(other, _)| is_same(other)) {
                Some((_, names)) => names.push(name),
                None => groups.push((stop, vec![name])),
            }
        }
        let step = |(stop, names): (&Stop, Vec<String>)| {
            let first = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let Stop { verdict, why, next, .. } = stop;
            format!("{first}{more}\n  {}: {why}\n  next: {next}", verdict.name())
        };
        groups.into_iter().map(step).collect()
    }

    /// The rows as JSON.
    #[must_use]
    pub fn workloads(&self) -> Vec<Value> {
        self.rows.iter().map(Row::json).collect()
    }

    /// One sentence on each proxy without laststream: at most so many, and how many there are more.
    #[must_use]
    pub fn sentences(&self, most: usize) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| row.is_without_laststream());
        let all: Vec<String> = rows.map(Row::sentence).collect();
        let more = all.len().saturating_sub(most);
        let mut sentences: Vec<String> = all.into_iter().take(most).collect();
        if more > 0 {
            sentences
                .push(format!("and {more} more without laststream: `laststream assess` shows all"));
        }
        sentences
    }

    #[must_use]
    pub fn json(&self) -> Value {
        let count = |verdict| self.rows.iter().filter(|row| row.stop.verdict == verdict).count();
        json!({
            "workloads": self.workloads(),
            "without_proxy": self.number_without_proxy(),
            "verdicts": {
                "yes": count(Verdict::Yes),
                "long_streams": count(Verdict::LongStreams),
                "no": count(Verdict::No),
                "unknown": count(Verdict::Unknown),
            },
        })
    }

    /// The last line: how many proxies there are, and for how many of them laststream helps.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |verdict| self.rows.iter().filter(|row| row.stop.verdict == verdict).count();
        let several = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        let mut text = several(self.rows.len(), "workload");
        text += " with a proxy";
        let verdicts = [Verdict::Yes, Verdict::LongStreams, Verdict::Unknown, Verdict::No];
        let verdicts = verdicts.map(|verdict| (count(verdict), verdict.name()));
        let verdicts = verdicts.iter().filter(|(count, _)| *count > 0);
        let verdicts: Vec<_> = verdicts.map(|(count, name)| format!("{count} {name}")).collect();
        if !verdicts.is_empty() {
            text += &format!(". Does laststream help? {}", verdicts.join(", "));
        }
        let without_proxy = self.number_without_proxy();
        if without_proxy > 0 {
            let workloads = several(without_proxy, "workload");
            text += &format!(". No proxy was seen in {workloads}");
        }
        let is_assumed = |row: &Row| row.stop.cut.certainty == Certainty::IfDefaults;
        if self.rows.iter().any(is_assumed) {
            text += ". Times with `*` hold if the mesh's defaults hold";
        }
        text
    }
}
