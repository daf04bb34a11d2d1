//! Checks by what streams are counted (by the filter and Envoy, or by Envoy alone, which needs no
//! filter in the path of requests), and which TCP connections hold a drain.

use serde_json::Value;

use crate::checker::Checker;
use crate::file::{File, Show};
use crate::placement::{Controller, Site};
use crate::policy::TcpListener;

/// The fields that are not the filter's.
const BY: &str = "by";
const TCP: &str = "tcp";

const NO_FILTER: &str = "needs the filter, which knows each stream, and there is none with \
    `delivery: program`: take one of them out";
const OF_THE_FILTER: &str = "needs the filter, which knows each stream: take it out, or write \
    `count: {by: filter}`";
const NO_ROUTES: &str = "`envoy` needs a route of laststream's at the head of each virtual host, \
    which is not rendered here: write `filter`";
const OF_JOB: &str = "`envoy` does not count the calls that `laststream exec` waits for: write \
    `filter`";

impl Checker {
    /// Whether Envoy's own count is the only one.
    pub(super) fn by_envoy(&mut self, file: &File, site: Site<'_>) -> bool {
        let by = file.count.as_ref().and_then(|count| count.get(BY));
        let is_program = file.is_program();
        match by.map(Value::as_str) {
            None if is_program => {}
            Some(Some("filter")) if is_program => self.problem("count.by", NO_FILTER),
            None | Some(Some("filter")) => return false,
            Some(Some("envoy")) => {}
            Some(_) => {
                self.problem("count.by", "is not known here: write `filter` or `envoy`");
                return false;
            }
        }
        let of_the_filter = if is_program { NO_FILTER } else { OF_THE_FILTER };
        let fields = file.count.as_ref().and_then(Value::as_object);
        let is_of_the_filter = |key: &&String| ![BY, TCP].contains(&key.as_str());
        let rules = fields.into_iter().flat_map(|rules| rules.keys()).filter(is_of_the_filter);
        for field in rules {
            self.problem(&format!("count.{field}"), of_the_filter);
        }
        for (field, is_written, why) in [
            ("count.by", site.facts.no_show.is_some() && !is_program, NO_ROUTES),
            ("count.by", file.job.is_some(), OF_JOB),
            ("count.by", !site.has_gate, "`envoy` is for a gate, and there is none: take it out"),
            ("profile", file.profile.is_some(), of_the_filter),
            ("end", file.end.is_some() && file.profile.is_none(), of_the_filter),
            ("websockets", file.websockets.is_some(), of_the_filter),
            ("streams.show", file.streams.show != Show::Nothing, of_the_filter),
            ("drain.long_lived_after", file.drain.long_lived_after.is_some(), of_the_filter),
        ] {
            if is_written {
                self.problem(field, why);
            }
        }
        true
    }

    /// The listeners whose TCP connections hold the drain.
    pub(super) fn tcp(&mut self, file: &File, site: Site<'_>) -> Vec<TcpListener> {
        let Some(tcp) = file.count.as_ref().and_then(|count| count.get(TCP)) else {
            return Vec::new();
        };
        if let Some(why) = site.facts.no_tcp {
            self.problem("count.tcp", why);
        }
        if !site.has_gate {
            self.problem("count.tcp", "is for a gate, and there is none: take it out");
        }
        let listeners = tcp.as_array().map_or(&[][..], Vec::as_slice);
        let known: Option<Vec<_>> = listeners.iter().map(listener).collect();
        let is_name = |listener: &TcpListener| matches!(listener, TcpListener::Name(_));
        match known {
            Some(known)
                if site.facts.controller != Controller::None && known.iter().any(is_name) =>
            {
                self.problem("count.tcp", "has a name, which Istio makes itself: write the port");
                Vec::new()
            }
            Some(known) if !known.is_empty() => known,
            _ => {
                self.problem("count.tcp", NO_LISTENERS);
                Vec::new()
            }
        }
    }
}

const NO_LISTENERS: &str = "is a list of the ports of TCP listeners, or of their names where \
    Envoy's own configuration is merged: write `tcp: [5432]`";

fn listener(written: &Value) -> Option<TcpListener> {
    match written {
        Value::String(name) if !name.is_empty() => Some(TcpListener::Name(name.clone())),
        port => {
            let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
            port.filter(|port| *port > 0).map(TcpListener::Port)
        }
    }
}

/// The filter's own part of `count`.
pub(super) fn of_the_filter(mut count: Value) -> Option<Value> {
    let has_others = count.as_object_mut().is_some_and(|rules| {
        let others = [BY, TCP].map(|field| rules.remove(field));
        others.iter().any(Option::is_some) && rules.is_empty()
    });
    (!has_others).then_some(count)
}
