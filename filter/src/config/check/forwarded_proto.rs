//! Checks the part for `x-forwarded-proto`.

use super::{Checker, item};
use crate::config::wire::{Element, Fallback, Form, ForwardedProto, Preset, Trust as WireTrust};
use crate::forwarded::{
    FORWARDED_PROTO, Peers, Ports, Range, SchemePolicy, Source, Trust, form_of, headers_of,
};
use crate::text::Text;

impl Checker {
    pub(super) fn forwarded_proto(&mut self, wire: &ForwardedProto) -> SchemePolicy {
        let original =
            self.header_name("forwarded_proto", "original_header", &wire.original_header);
        let reads_destination = wire.presets.contains(&Preset::Nlb);
        let sources = if reads_destination {
            self.check_destination(wire);
            Vec::new()
        } else {
            self.sources(wire, &original)
        };
        self.check_fallbacks(wire, &original);
        self.check_ports(wire);
        let ports = &wire.ports;
        SchemePolicy {
            trust: self.trust(&wire.trust),
            reads_destination,
            sources,
            original,
            decision: wire.decision,
            ports: Ports::new(ports.https.clone(), ports.http.clone()),
            fallback: wire.fallback,
            silent: wire.silent,
            strip: wire.strip.clone(),
            write_scheme: wire.write_scheme,
            write_port: wire.write_port,
        }
    }

    /// A load balancer of layer 4 writes no header, and its PROXY protocol header comes before TLS.
    fn check_destination(&mut self, wire: &ForwardedProto) {
        for (is_wrong, path, problem) in [
            (
                wire.presets.iter().any(|preset| *preset != Preset::Nlb),
                "forwarded_proto.presets",
                "`nlb` stands alone: a load balancer of layer 4 forwards headers that its clients \
                 write, so none can be believed beside it",
            ),
            (
                !wire.sources.is_empty(),
                "forwarded_proto.sources",
                "has no place beside `nlb`: a load balancer of layer 4 forwards headers that its \
                 clients write. Take it out",
            ),
            (
                !wire.trust.identities.is_empty(),
                "forwarded_proto.trust.identities",
                "has no place beside `nlb`: the PROXY protocol header comes before TLS, so no \
                 certificate proves its sender. Name address ranges in `peers`",
            ),
            (
                wire.ports.https.is_empty(),
                "forwarded_proto.ports.https",
                "is empty, so `nlb` could never say https: name the ports on which the load \
                 balancer terminates TLS",
            ),
        ] {
            if is_wrong {
                self.add_problem(path, problem);
            }
        }
    }

    fn sources(&mut self, wire: &ForwardedProto, original: &str) -> Vec<Source> {
        let mut sources = Vec::new();
        for preset in &wire.presets {
            for header in headers_of(*preset) {
                self.add_source(&mut sources, original, header, form_of(header), Element::Agree);
            }
        }
        for (index, source) in wire.sources.iter().enumerate() {
            let path = item("forwarded_proto.sources", index);
            let header = self.header_name(&path, "header", &source.header);
            let form = source.form.or_else(|| form_of(&header));
            let ports = &wire.ports;
            if form == Some(Form::Port) && ports.https.is_empty() && ports.http.is_empty() {
                self.add_problem(
                    &path,
                    "reads a port, and `ports` knows none: name the ports of https and http there",
                );
            }
            self.add_source(&mut sources, original, &header, form, source.element);
        }
        if sources.is_empty() {
            self.add_problem(
                "forwarded_proto.sources",
                "names no header: add one, or name your load balancer in `presets`",
            );
        }
        sources
    }

    fn check_fallbacks(&mut self, wire: &ForwardedProto, original: &str) {
        const WHY: &str = "`keep` keeps what any client claims where the peer's own \
            `x-forwarded-proto` is the original header: take `";
        for (path, fallback, safe) in [
            ("forwarded_proto.fallback", wire.fallback, "connection"),
            ("forwarded_proto.silent", wire.silent, "http"),
        ] {
            if fallback == Fallback::Keep && original == FORWARDED_PROTO {
                self.add_problem(path, &format!("{WHY}{safe}`"));
            }
        }
    }

    fn check_ports(&mut self, wire: &ForwardedProto) {
        let ports = &wire.ports;
        if let Some(port) = ports.https.iter().find(|port| ports.http.contains(port)) {
            self.add_problem(
                "forwarded_proto.ports",
                &format!("{port} stands for both https and http"),
            );
        }
        if wire.write_port && (ports.https.is_empty() || ports.http.is_empty()) {
            self.add_problem(
                "forwarded_proto.ports",
                "`write_port` needs at least one port for https and one for http",
            );
        }
    }

    /// Adds a source once, because two presets may share it.
    fn add_source(
        &mut self,
        sources: &mut Vec<Source>,
        original: &str,
        header: &str,
        form: Option<Form>,
        element: Element,
    ) {
        let header = if header == FORWARDED_PROTO { original } else { header };
        let source = Source { header: header.into(), form: form.unwrap_or(Form::Scheme), element };
        match sources.iter().find(|other| other.header == header) {
            None => sources.push(source),
            Some(other) if *other == source => {}
            Some(_) => self.add_problem(
                "forwarded_proto.sources",
                &format!("`{header}` is there twice, read in two ways"),
            ),
        }
    }

    fn trust(&mut self, wire: &WireTrust) -> Trust {
        const HERE: &str = "forwarded_proto.trust";
        if wire.peers.is_empty() && wire.identities.is_empty() {
            self.add_problem(
                HERE,
                "trusts no peer: add the address range of the load balancer to `peers`, or its \
                 identity to `identities`",
            );
        }
        if wire.peer_key.is_empty() || wire.peer_key.contains('\0') {
            self.add_problem(
                "forwarded_proto.trust.peer_key",
                "is not a filter state key: leave it out for the usual one",
            );
        }
        let mut ranges: Vec<Range> = Vec::new();
        for (index, text) in wire.peers.iter().enumerate() {
            match text.parse() {
                Ok(range) => ranges.push(range),
                Err(error) => self.add_problem(
                    &item("forwarded_proto.trust.peers", index),
                    &format!("`{text}` {}", error.to_text()),
                ),
            }
        }
        let mut identities = Vec::new();
        self.texts(
            "forwarded_proto.trust.identities",
            &wire.identities,
            wrong_identity,
            &mut |text| identities.push(text),
        );
        Trust::new(Peers::from_iter(ranges), identities, wire.peer_key.clone())
    }
}

fn wrong_identity(identity: &Text) -> Option<String> {
    match identity {
        Text::Prefix(prefix) if !prefix.ends_with('/') => {
            Some(format!("`{prefix}` also begins longer names: end it with `/`, or use `exact`"))
        }
        Text::Prefix(prefix) if !names_domain(prefix) => Some(format!(
            "`{prefix}` names no trust domain, so it trusts all of them: write \
             `spiffe://DOMAIN/`, such as `spiffe://cluster.local/`"
        )),
        _ => None,
    }
}

/// Whether this is `scheme://domain/…`.
fn names_domain(prefix: &str) -> bool {
    let mut parts = prefix.split('/');
    parts.next().is_some_and(|scheme| scheme.ends_with(':'))
        && parts.next() == Some("")
        && parts.next().is_some_and(|domain| !domain.is_empty())
}
