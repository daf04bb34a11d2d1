//! The questions that every placement answers.

use laststream_filter::config::wire::{Admin, Scope};

use crate::checker::Checker;
use crate::file::drain::{Drain, Starts};
use crate::file::gate::GateSection;
use crate::sizing::UsualDrain;
use laststream_base::ports;

/// A placement: the checks of its own fields, and its facts.
pub(crate) trait Place {
    /// Checks its fields, and fills in defaults. `name` is the policy's.
    fn check(&mut self, checker: &mut Checker, name: &str);

    /// Checks what a gate needs here, beyond what every gate needs.
    fn check_gate(&self, checker: &mut Checker, gate: &GateParts<'_>);

    fn facts(&self) -> Facts<'_>;
}

/// The parts of the policy on which a gate depends.
pub(crate) struct GateParts<'f> {
    pub(crate) gate: &'f GateSection,
    pub(crate) drain: &'f Drain,
    pub(crate) program_image: Option<&'f str>,
    /// Whether kubelet mounts the module.
    pub(crate) is_mounted: bool,
    /// The gate's port, if there is a gate.
    pub(crate) port: Option<u16>,
}

/// The facts of the placement, and whether its proxies have a gate.
#[derive(Clone, Copy)]
pub(crate) struct Site<'p> {
    pub(crate) facts: &'p Facts<'p>,
    pub(crate) has_gate: bool,
}

/// What differs between placements. A field `no_…` is the reason why a field of the policy is
/// refused.
#[derive(Debug, Clone)]
pub struct Facts<'p> {
    pub controller: Controller,
    /// The GatewayClass, if the policy is for a class.
    pub class: Option<&'p str>,
    /// The scopes that are counted, and whether `x-forwarded-proto` is restored there.
    pub scopes: Vec<(Scope, bool)>,
    /// Whether the proxy's pod has an app.
    pub(crate) has_app: bool,
    /// Whether the app's own calls pass the proxy. Its inbound listeners are then separate ones.
    pub has_app_calls: bool,
    pub gate_module: GateModule,
    /// How the gate reaches Envoy's admin interface.
    pub admin: Admin,
    pub(crate) drain: UsualDrain,
    /// What starts a drain unless the policy says so, or why Istio's agent cannot.
    pub(crate) starts: Result<Starts, &'static str>,
    /// Whether the operator can put a file with a secret into the pod, and write the hook.
    pub(crate) takes_sds: bool,
    pub(crate) no_forwarded_proto: Option<&'static str>,
    pub(crate) no_nlb: Option<&'static str>,
    pub(crate) no_identities: Option<&'static str>,
    pub(crate) client_address: ClientAddress,
    /// For `streams.show`.
    pub(crate) no_show: Option<&'static str>,
    /// Why no TCP connections can be counted.
    pub(crate) no_tcp: Option<&'static str>,
    /// Why the gate cannot be a program.
    pub(crate) no_program: Option<&'static str>,
    /// The frame filter must be off except on some routes, and share its VM id with the gate.
    pub(crate) no_websockets: Option<&'static str>,
    /// A warning about the placement's own fields.
    pub(crate) warning: Option<&'static str>,
}

impl Facts<'_> {
    /// Whether the gate's listener stands in Envoy's bootstrap, where no agent fetches a module.
    pub fn has_gate_in_bootstrap(&self) -> bool {
        self.gate_module != GateModule::Fetched
    }
}

/// The program that configures the proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    Istio,
    /// It fetches the counter's module, and hands it to the proxies.
    EnvoyGateway,
    /// None: Envoy has the rendered bootstrap.
    None,
}

impl Controller {
    /// Its name, and the ports of its own listeners.
    pub(crate) fn ports(self) -> (&'static str, &'static [&'static [u16]]) {
        match self {
            Self::Istio => ("Istio", &[ports::ISTIO, ports::ISTIO_METRICS]),
            Self::EnvoyGateway => ("Envoy Gateway", &[ports::ENVOY_GATEWAY]),
            Self::None => ("", &[]),
        }
    }
}

/// From where the gate can load the module, and why not from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateModule {
    /// From anywhere, as the counter.
    Fetched,
    /// From a file in the proxy, mounted or not.
    File(&'static str),
    /// From an image volume only.
    Mounted(&'static str),
}

/// From which headers Envoy can take the client's address, and why not from others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClientAddress {
    Refused(&'static str),
    /// From `x-forwarded-for` only.
    Xff(&'static str),
    Header,
}

pub(super) const NO_AGENT: &str = "`agent` is Istio's, which is not here: write `hook`";

pub(super) const HAS_MODULE: &str = "`program` is for Envoys without the module, and this one can \
    have it: write `count: {by: envoy}`, which costs requests nothing either";

pub(super) const KEEPS_REMOTE_ADDRESS: &str = "an Istio gateway has `use_remote_address: true`, \
    which no EnvoyFilter can merge away, and Envoy then refuses the listener. Take it out; \
    `gatewayTopology.numTrustedProxies` in `proxy.istio.io/config` makes Istio count hops in \
    x-forwarded-for, of every peer";

pub(super) const BEHIND_A_GATEWAY: &str = "is for the proxy that meets the load balancer: take it \
    out here, and find the client's address at the gateway";
