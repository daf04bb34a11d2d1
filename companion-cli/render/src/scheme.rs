//! The engine that restores `x-forwarded-proto`: the module, or Envoy's native matchers.

use std::net::SocketAddr;

use super::native::{self, Destination, Listeners, Native};
use super::parts::{Early, Leaves};
use laststream_base::yaml::Map;
use laststream_policy::file::{Engine, Placement, PlainEnvoy};
use laststream_policy::{ForwardedProto, PeerInfo, Policy, PolicyProblem};

/// The engine of a policy.
#[derive(Debug)]
pub(super) enum Scheme<'p> {
    /// None: the policy does not restore the header.
    Untouched,
    /// The module, and why Envoy's matchers were not chosen.
    Module(&'p ForwardedProto, Option<String>),
    /// Envoy's native matchers.
    Envoy(Native),
}

impl<'p> Scheme<'p> {
    /// Chooses the engine; filters get their names from `name`.
    pub(super) fn of(
        policy: &'p Policy,
        name: impl Fn(&str) -> String,
    ) -> Result<Self, PolicyProblem> {
        let Some(proto) = &policy.forwarded_proto else { return Ok(Self::Untouched) };
        if policy.engine == Engine::Wasm {
            return Ok(Self::module(policy));
        }
        let compiled = listeners(&policy.placement)
            .map_err(|why| vec![why.to_owned()])
            .and_then(|at| native::compile(proto, at, name));
        let is_required = policy.engine == Engine::Native;
        match (compiled, unsure(&policy.placement, proto)) {
            (Ok(_), Some(why)) if !is_required => Ok(Self::Module(proto, Some(why.into()))),
            (Ok(native), _) => Ok(Self::Envoy(native)),
            (Err(reasons), _) if is_required => Err(refused(&reasons.join("; "))),
            (Err(reasons), _) => Ok(Self::Module(proto, Some(reasons.join("; ")))),
        }
    }

    /// The module, because there is no place for Envoy's filters.
    pub(super) fn only_module(policy: &'p Policy, why: &str) -> Result<Self, PolicyProblem> {
        if policy.engine == Engine::Native && policy.forwarded_proto.is_some() {
            Err(refused(why))
        } else {
            Ok(Self::module(policy))
        }
    }

    /// The module, whichever engine the policy names.
    pub(super) fn module(policy: &'p Policy) -> Self {
        policy.forwarded_proto.as_ref().map_or(Self::Untouched, |proto| Self::Module(proto, None))
    }

    /// Whether the module restores the header.
    pub(super) fn is_restored_by_module(&self) -> bool {
        matches!(self, Self::Module(..))
    }

    /// The saved header, which must not leave this Envoy.
    pub(super) fn saved_in(&self) -> Option<&str> {
        match self {
            Self::Untouched => None,
            Self::Module(proto, _) => proto.saved_in.as_deref(),
            Self::Envoy(native) => native.saved_in.as_deref(),
        }
    }

    /// The header mutations before Envoy writes its own `x-forwarded-proto`.
    pub(super) fn early(&self, placement: &Placement) -> Option<Early<'_>> {
        let leaves = match self {
            Self::Module(proto, _) if proto.forgets => match placement {
                Placement::Sidecar(_) => Leaves::Http,
                _ => Leaves::Connection,
            },
            // Untrusted peers get the connection's scheme from Envoy itself.
            Self::Envoy(native) if native.forgets => Leaves::Connection,
            Self::Untouched | Self::Module(..) | Self::Envoy(_) => Leaves::Own,
        };
        let saved_in = self.saved_in();
        (saved_in.is_some() || leaves != Leaves::Own).then_some(Early { saved_in, leaves })
    }

    /// The peer information that a filter in front of the module writes.
    pub(super) fn peer_info(&self) -> Option<&'p PeerInfo> {
        match self {
            Self::Module(proto, _) => proto.peer_info.as_ref(),
            Self::Untouched | Self::Envoy(_) => None,
        }
    }

    /// Envoy's filters, which come behind the module in this order.
    pub(super) fn filters(&self) -> &[Map] {
        match self {
            Self::Envoy(native) => &native.filters,
            Self::Untouched | Self::Module(..) => &[],
        }
    }

    /// Envoy's own settings for the destination port of PROXY protocol headers.
    pub(super) fn destination(&self) -> Option<&Destination> {
        match self {
            Self::Envoy(native) => native.destination.as_ref(),
            Self::Untouched | Self::Module(..) => None,
        }
    }

    /// The comment on the engine at the head of the file.
    pub(super) fn about(&self) -> Option<String> {
        match self {
            Self::Untouched | Self::Module(_, None) => None,
            Self::Module(_, Some(why)) => Some(format!(
                "The module restores x-forwarded-proto, not Envoy's own matchers: {why}."
            )),
            Self::Envoy(Native { destination: Some(_), .. }) => Some(
                "Envoy's own forward_proto_config (Envoy 1.38 and newer) restores \
                    x-forwarded-proto, and the module only counts. So there are no \
                    laststream_forwarded_proto counters. The :scheme of HTTP/1 follows. `engine: \
                    wasm` leaves it to the module."
                    .into(),
            ),
            Self::Envoy(_) => Some(
                "Envoy's own matchers restore x-forwarded-proto, and the module only counts. So \
                    there are no laststream_forwarded_proto counters; what was written is in \
                    http.*.ip_tagging.https.hit. `engine: wasm` leaves it to the module."
                    .into(),
            ),
        }
    }
}

/// The listeners of a placement, or the reason why it takes no filters of Envoy's.
fn listeners(placement: &Placement) -> Result<Listeners, &'static str> {
    match placement {
        Placement::Envoy(envoy) => Ok(Listeners::Edge(own_port(envoy))),
        Placement::EnvoyGateway(_) => Ok(Listeners::Plaintext),
        Placement::Gateway(_) | Placement::GatewayApi(_) | Placement::Sidecar(_) => {
            Ok(Listeners::Any)
        }
        Placement::Waypoint(_) => Err("a waypoint takes no filters of Envoy's from an EnvoyFilter"),
    }
}

/// The port was checked when the policy was read.
fn own_port(envoy: &PlainEnvoy) -> u16 {
    let address = envoy.listen.as_deref().and_then(|text| text.parse::<SocketAddr>().ok());
    address.map_or(0, |address| address.port())
}

/// The reason to doubt that the proxy has the extensions that Envoy's own configuration needs.
fn unsure(placement: &Placement, proto: &ForwardedProto) -> Option<&'static str> {
    const NEW: &str = "forward_proto_config came with Envoy 1.38, and an older Envoy refuses it; \
        where yours has it, write `engine: native`";
    if proto.destination_ports.is_some() {
        return Some(NEW);
    }
    const ISTIO: &str = "Istio builds its own Envoy, and its list of extensions does not name \
        match_delegate; where yours has it, write `engine: native`";
    matches!(placement, Placement::Gateway(_) | Placement::GatewayApi(_) | Placement::Sidecar(_))
        .then_some(ISTIO)
}

/// The requirement on Istio's proxies.
pub(super) const NEEDS: &str = "engine: every proxy needs envoy.filters.http.match_delegate, or it \
    refuses its listeners: look for it in `pilot-agent request GET config_dump?resource=bootstrap`";

fn refused(why: &str) -> PolicyProblem {
    PolicyProblem::new(
        "engine",
        format!(
            "Envoy's own matchers cannot do this: {why}. Write `auto` or `wasm`, and the module \
                does it"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::Scheme;
    use crate::parts::Leaves;
    use crate::tests::policy;

    /// Whether the module restores the header, and the comment at the head of the file.
    fn engine_of(text: &str) -> Result<(bool, String), String> {
        let policy = policy(text);
        let scheme = Scheme::of(&policy, str::to_owned).map_err(|refused| refused.to_string())?;
        assert_ne!(scheme.is_restored_by_module(), matches!(scheme, Scheme::Envoy(_)), "{text}");
        Ok((scheme.is_restored_by_module(), scheme.about().unwrap_or_default()))
    }

    const PROTO: &str = "forwarded_proto: {trust: {peers: [10.0.0.0/8]}, ";

    #[test]
    fn placement_and_engine_choose_matchers_or_the_module() {
        for (placement, engine, module) in [
            ("envoy: {}", "auto", false),
            ("envoy: {}", "native", false),
            ("envoy: {}", "wasm", true),
            ("envoy_gateway: {gateway: g}", "auto", false),
            ("gateway: {}", "auto", true),
            ("gateway: {}", "native", false),
            ("sidecar: {}", "auto", true),
            ("sidecar: {}", "native", false),
        ] {
            let text = format!(
                "namespace: n\nplacement: {{{placement}}}\nengine: {engine}\n{PROTO}presets: \
                    [aws_alb]}}"
            );
            let (by_module, about) = engine_of(&text).expect(&text);
            assert_eq!(by_module, module, "{text}");
            assert_eq!(
                about.is_empty(),
                engine == "wasm",
                "the reason is told unless it was asked for: {about}"
            );
        }
        assert!(matches!(
            Scheme::of(&policy("engine: native"), str::to_owned),
            Ok(Scheme::Untouched)
        ));
    }

    /// Envoy overwrites the header at gateways, and matchers need what Envoy writes.
    #[test]
    fn only_a_sidecar_with_the_module_starts_as_http() {
        for (placement, engine, fallback, expected) in [
            ("sidecar: {}", "wasm", "http", Leaves::Http),
            ("sidecar: {}", "wasm", "connection", Leaves::Http),
            ("sidecar: {}", "wasm", "keep", Leaves::Own),
            ("sidecar: {}", "native", "connection", Leaves::Connection),
            ("gateway: {}", "wasm", "http", Leaves::Connection),
            ("gateway_api: {gateway: g}", "wasm", "http", Leaves::Connection),
            ("envoy_gateway: {gateway: g}", "wasm", "http", Leaves::Connection),
            ("envoy: {}", "wasm", "http", Leaves::Connection),
        ] {
            let text = format!(
                "namespace: n\nplacement: {{{placement}}}\nengine: {engine}\n{PROTO}presets: \
                    [gcp], fallback: {fallback}}}"
            );
            let policy = policy(&text);
            let scheme = Scheme::of(&policy, str::to_owned).expect(&text);
            let early = scheme.early(&policy.placement).expect(&text);
            assert_eq!(early.leaves, expected, "{text}");
        }
    }

    /// The version of Envoy is not known, and only `placement.envoy` has filter chains for trusted
    /// peers.
    #[test]
    fn destination_ports_are_left_to_the_module_unless_asked_for() {
        const NLB: &str = "presets: [nlb]";
        let envoy = |more: &str| format!("placement: {{envoy: {{}}}}\n{PROTO}{NLB}{more}}}\n");
        let (by_module, about) = engine_of(&envoy("")).expect("a policy");
        assert!(by_module && about.contains("Envoy 1.38"), "{about}");
        let (by_module, about) =
            engine_of(&format!("{}engine: native", envoy(""))).expect("a policy");
        assert!(!by_module && about.contains("forward_proto_config"), "{about}");
        for placement in ["envoy_gateway: {gateway: g}", "gateway: {}", "gateway_api: {gateway: g}"]
        {
            let text = format!("namespace: n\nplacement: {{{placement}}}\n{PROTO}{NLB}}}");
            refuses(&text, "only `placement.envoy`");
        }
        for (more, word) in [
            (", ports: {https: [443, 10000]}", "own port 10000"),
            (", write_scheme: true", "write_scheme"),
            (", write_port: true", "write_port"),
            (", strip: {twins: true}", "strip"),
        ] {
            refuses(&envoy(more), word);
        }
    }

    /// Both work only on a listener whose header Envoy certainly overwrites.
    #[test]
    fn matchers_keep_the_header_of_all_peers_or_of_none() {
        let both = "presets: [gcp], silent: keep}";
        refuses(
            &format!("namespace: n\nplacement: {{envoy_gateway: {{gateway: g}}}}\n{PROTO}{both}"),
            "`keep` and `connection` together",
        );
        assert!(
            engine_of(&format!("placement: {{envoy: {{}}}}\nengine: native\n{PROTO}{both}"))
                .is_ok()
        );
    }

    #[test]
    fn policies_that_matchers_cannot_express_use_the_module_or_are_refused() {
        for (proto, word) in [
            ("presets: [cloudflare]}", "`cf-visitor` is JSON"),
            ("sources: [{header: forwarded}]}", "`forwarded` has a grammar"),
            ("sources: [{header: x-tls, form: present}]}", "`x-tls` counts by its presence"),
            ("sources: [{header: x-forwarded-port}], ports: {https: []}}", "`ports` for both"),
            (
                "sources: [{header: x-forwarded-port}], ports: {https: [1, 2, 3, 4, 5, 6, 7, 8]}}",
                "more `ports`",
            ),
            ("presets: [gcp], strip: {twins: true}}", "strip"),
            ("presets: [gcp], write_scheme: true}", "write_scheme"),
            ("presets: [gcp], write_port: true}", "write_port"),
        ] {
            refuses(&format!("placement: {{envoy: {{}}}}\n{PROTO}{proto}"), word);
        }
        refuses(
            "placement: {envoy: {}}\nforwarded_proto: {presets: [gcp], trust: {identities: \
                [{exact: a}]}}",
            "identities",
        );
        let many: Vec<String> =
            (0..1001).map(|number| format!("10.{}.{}.0/24", number / 256, number % 256)).collect();
        let many = many.join(", ");
        refuses(
            &format!(
                "placement: {{envoy: {{}}}}\nforwarded_proto: {{presets: [gcp], trust: {{peers: \
                    [{many}]}}}}"
            ),
            "1000 ranges",
        );
    }

    fn refuses(text: &str, word: &str) {
        let (by_module, about) = engine_of(text).expect(text);
        assert!(by_module && about.contains(word), "{text}\n{about}");
        let refused = engine_of(&format!("{text}\nengine: native")).expect_err(text);
        assert!(
            refused.starts_with("engine: ") && refused.contains(word) && refused.contains("`wasm`"),
            "{refused}"
        );
    }
}
