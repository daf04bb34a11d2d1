//! The engine that restores `x-forwarded-proto`: the module, Envoy's native matchers, or one of
//! them by the version of the proxy.

use super::native::{self, Matching, Native};
use super::parts::Early;
use super::placement::{self, Leaves, Listeners};
use laststream_base::yaml::Map;
use laststream_policy::file::Engine;
use laststream_policy::{ForwardedProto, PeerInfo, Policy, PolicyProblem};

#[derive(Debug)]
pub(super) enum Scheme<'p> {
    /// None: the policy does not restore the header.
    Untouched,
    /// The module, and why Envoy's matchers were not chosen.
    Module(&'p ForwardedProto, Option<String>),
    Envoy(Native),
    /// In Istio: the module, and Envoy's native matchers instead on proxies whose version is
    /// [`NEWER`].
    ByVersion(&'p ForwardedProto, Native),
}

/// The proxies of Istio 1.31 and newer, by `proxyVersion`: their Envoy, 1.39, is the first with the
/// composite filter's own matcher. A version that this does not match, such as that of a build from
/// before the release or of a vendor who counts otherwise, keeps the module, which works anywhere.
pub(super) const NEWER: &str = r"^1\.(31\.[0-9]|(3[2-9]|[4-9][0-9]|[1-9][0-9][0-9]+)([^0-9]|$))";

const NEEDS_MATCHERS: &str = "`envoy` leaves the module out of the path of requests, and \
    `forwarded_proto` needs it there: write `filter`, or a policy that Envoy's matchers express";

impl<'p> Scheme<'p> {
    /// Chooses the engine; filters get their names from `name`. Where Envoy alone counts, the
    /// module is not in the path of requests, unless an older proxy needs it.
    pub(super) fn of(
        policy: &'p Policy,
        name: impl Fn(&str) -> String,
    ) -> Result<Self, PolicyProblem> {
        match Self::chosen(policy, name)? {
            Self::Module(_, why) if policy.by_envoy => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                Err(PolicyProblem::new("count.by", format!("{NEEDS_MATCHERS}{why}")))
            }
            scheme => Ok(scheme),
        }
    }

    fn chosen(policy: &'p Policy, name: impl Fn(&str) -> String) -> Result<Self, PolicyProblem> {
        let Some(proto) = &policy.forwarded_proto else { return Ok(Self::Untouched) };
        if policy.engine == Engine::Wasm {
            return Ok(Self::module(policy));
        }
        let in_istio = policy.placement.is_istio();
        let matching = match policy.engine {
            Engine::Composite => Matching::Composite,
            Engine::Auto if in_istio => Matching::Composite,
            Engine::Auto | Engine::Native | Engine::Wasm => Matching::Delegate,
        };
        let place = placement::facts(policy);
        if let Some(why) = place.no_composite.filter(|_| policy.engine == Engine::Composite) {
            return Err(PolicyProblem::new("engine", why));
        }
        // `match_delegate` comes without the early mutation that makes a sidecar's listeners known.
        let listeners = match (place.listeners, matching) {
            (Ok(Listeners::Sidecar), Matching::Delegate) => Ok(Listeners::Any),
            (listeners, _) => listeners,
        };
        let native = listeners
            .map_err(|why| vec![why.to_owned()])
            .and_then(|at| native::compile(proto, at, matching, name));
        let is_required = policy.engine != Engine::Auto;
        match native {
            Ok(native) if native.by_destination && !is_required => {
                Ok(Self::Module(proto, Some(NEW.into())))
            }
            Ok(native) if in_istio && matching == Matching::Composite => {
                Ok(Self::ByVersion(proto, native))
            }
            Ok(native) => Ok(Self::Envoy(native)),
            Err(reasons) if is_required => Err(refused(&reasons.join("; "))),
            Err(reasons) => Ok(Self::Module(proto, Some(reasons.join("; ")))),
        }
    }

    /// The module, because there is no place for Envoy's filters.
    pub(super) fn only_module(policy: &'p Policy, why: &str) -> Result<Self, PolicyProblem> {
        let is_required = matches!(policy.engine, Engine::Native | Engine::Composite);
        if is_required && policy.forwarded_proto.is_some() {
            Err(refused(why))
        } else {
            Ok(Self::module(policy))
        }
    }

    /// The module, whichever engine the policy names.
    pub(super) fn module(policy: &'p Policy) -> Self {
        policy.forwarded_proto.as_ref().map_or(Self::Untouched, |proto| Self::Module(proto, None))
    }

    /// Whether the module restores the header, on all proxies or on some.
    pub(super) fn is_restored_by_module(&self) -> bool {
        matches!(self, Self::Module(..) | Self::ByVersion(..))
    }

    /// Envoy's own configuration for the proxies whose version is [`NEWER`].
    pub(super) fn newer(&self) -> Option<&Native> {
        match self {
            Self::ByVersion(_, native) => Some(native),
            Self::Untouched | Self::Module(..) | Self::Envoy(_) => None,
        }
    }

    /// The saved header, which must not leave this Envoy.
    pub(super) fn saved_in(&self) -> Option<&str> {
        match self {
            Self::Untouched => None,
            Self::Module(proto, _) | Self::ByVersion(proto, _) => proto.saved_in.as_deref(),
            Self::Envoy(native) => native.saved_in.as_deref(),
        }
    }

    /// The header mutations before Envoy writes its own `x-forwarded-proto`.
    pub(super) fn early(&self, policy: &Policy) -> Option<Early<'_>> {
        let leaves = match self {
            Self::Module(proto, _) | Self::ByVersion(proto, _) if proto.forgets => {
                placement::facts(policy).leaves
            }
            // Untrusted peers get the connection's scheme from Envoy itself.
            Self::Envoy(native) if native.forgets => Leaves::Connection,
            Self::Untouched | Self::Module(..) | Self::Envoy(_) | Self::ByVersion(..) => {
                Leaves::Own
            }
        };
        let saved_in = self.saved_in();
        (saved_in.is_some() || leaves != Leaves::Own).then_some(Early { saved_in, leaves })
    }

    /// Whether Envoy's own matchers need the scheme of the connection, where the module's early
    /// mutation leaves http.
    pub(super) fn needs_connection(&self, policy: &Policy) -> bool {
        let leaves = self.early(policy).map(|early| early.leaves);
        leaves == Some(Leaves::Http) && self.newer().is_some_and(|native| native.forgets)
    }

    /// The peer information that a filter in front of the module writes.
    pub(super) fn peer_info(&self) -> Option<&'p PeerInfo> {
        match self {
            Self::Module(proto, _) | Self::ByVersion(proto, _) => proto.peer_info.as_ref(),
            Self::Untouched | Self::Envoy(_) => None,
        }
    }

    /// Envoy's filters, which come behind the module in this order.
    pub(super) fn filters(&self) -> &[Map] {
        match self {
            Self::Envoy(native) => &native.filters,
            Self::Untouched | Self::Module(..) | Self::ByVersion(..) => &[],
        }
    }

    /// Whether Envoy's own settings restore the header by the destination port of PROXY protocol
    /// headers.
    pub(super) fn is_by_destination(&self) -> bool {
        matches!(self, Self::Envoy(native) if native.by_destination)
    }

    /// The comment on the engine at the head of the file.
    pub(super) fn about(&self) -> Option<String> {
        match self {
            Self::Untouched | Self::Module(_, None) => None,
            Self::Module(_, Some(why)) => Some(format!(
                "The module restores x-forwarded-proto, not Envoy's own matchers: {why}."
            )),
            Self::Envoy(Native { by_destination: true, .. }) => Some(
                "Envoy's own forward_proto_config (Envoy 1.38 and newer) restores \
                    x-forwarded-proto, not the module. So there are no \
                    laststream_forwarded_proto counters. The :scheme of HTTP/1 follows. `engine: \
                    wasm` leaves it to the module."
                    .into(),
            ),
            Self::Envoy(Native { matching: Matching::Delegate, .. }) => Some(
                "Envoy's own matchers restore x-forwarded-proto, not the module. So \
                    there are no laststream_forwarded_proto counters; what was written is in \
                    http.*.ip_tagging.https.hit. `engine: wasm` leaves it to the module."
                    .into(),
            ),
            Self::Envoy(_) => Some(
                "Envoy's own matchers in the composite filter restore x-forwarded-proto, not the \
                    module: Envoy 1.39 and newer. Envoy 1.38 ignores them, and every \
                    request stays http. There are no laststream_forwarded_proto counters; \
                    http.*.composite.filter_delegation_success counts the headers that were \
                    written."
                    .into(),
            ),
            Self::ByVersion(..) => Some(
                "On proxies of Istio 1.31 and newer Envoy's own matchers in the composite filter \
                    restore x-forwarded-proto, not the module: there are no \
                    laststream_forwarded_proto counters, and \
                    http.*.composite.filter_delegation_success counts the headers that were \
                    written. On older proxies, and on those whose version is unknown, the module \
                    does it. `engine: wasm` leaves it to the module on all of them."
                    .into(),
            ),
        }
    }
}

/// The reason to doubt that the proxy has Envoy's own setting for destination ports.
const NEW: &str = "forward_proto_config came with Envoy 1.38, and an older Envoy refuses it; where \
    yours has it, write `engine: native`";

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
mod tests;
