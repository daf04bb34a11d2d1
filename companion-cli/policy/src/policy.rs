//! A checked policy: what is written, and what follows from it.

use serde_json::Value;

use crate::error::PolicyProblem;
use crate::file::{Begin, Delivery, Engine, FailurePolicy, File, Finish, LongLived, Starts};
use crate::placement::Placement;
use crate::sizing::Sizing;
use crate::source::{self, FRAMES_FOLDER, MODULE_FOLDER, ModuleLocation, Resolve, Wanted};
use laststream_base::versions::Release;
use laststream_filter::config::wire::Ports;

/// A checked policy: what is written, and what follows from it.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The policy as it is written. Fields of the same names beside it have the defaults.
    pub file: File,
    pub name: String,
    pub namespace: Option<String>,
    pub istio: Option<Release>,
    pub placement: Placement,
    pub delivery: Delivery,
    pub failure_policy: FailurePolicy,
    /// Whether Envoy's own count is the only one, and no filter is in the path of requests.
    pub by_envoy: bool,
    /// The listeners whose TCP connections hold the drain.
    pub tcp: Vec<TcpListener>,
    /// `count` of the module's configuration, with the additions for `end`.
    pub count: Option<Value>,
    pub forwarded_proto: Option<ForwardedProto>,
    pub engine: Engine,
    /// The gate's port, if there is a gate.
    pub gate_port: Option<u16>,
    /// What starts a drain.
    pub starts: Starts,
    pub begin: Begin,
    pub finish: Finish,
    /// Whether long-lived streams hold the drain.
    pub long_lived: LongLived,
    pub sizing: Sizing,
    /// The fields that the profile gave, with their values.
    pub given: Vec<String>,
    pub warnings: Vec<String>,
    /// Whether the gate is left out because `--module` is not an image for `delivery`.
    pub gate_dropped: bool,
}

/// A listener of TCP connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TcpListener {
    Port(u16),
    /// In a configuration of Envoy's own.
    Name(String),
}

/// `forwarded_proto` of the policy, with the facts that rendering needs.
#[derive(Debug, Clone)]
pub struct ForwardedProto {
    /// The configuration for the module, without `original_header` if that was `x-forwarded-proto`.
    pub json: Value,
    /// The header that an early mutation saves `x-forwarded-proto` in; `None` where no source
    /// reads it.
    pub saved_in: Option<String>,
    /// Whether the early mutation removes `x-forwarded-proto`, or overwrites it with http at a
    /// sidecar. Envoy writes the connection's scheme in place of a removed header. That value, or
    /// http, remains when the module fails. False if the policy has `keep`.
    pub forgets: bool,
    /// The peer information that a filter writes for the module; `None` if no address range is
    /// trusted.
    pub peer_info: Option<PeerInfo>,
    pub peers: Vec<String>,
    /// The ports that decide the scheme, if its only source is the PROXY protocol header.
    pub destination_ports: Option<Ports>,
}

/// A value of filter state: the direct peer's address, and values that the module need not look up
/// in the headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    pub key: String,
    /// Whether the connection's local addresses follow the peer's address.
    pub addresses: bool,
    /// Headers, in the order that the module expects; an empty name for a header that the module
    /// does not read. `None` if the module must read other headers.
    pub headers: Option<[String; 3]>,
}

impl Policy {
    /// Whether the gate is a program, and there is no module.
    pub fn is_program(&self) -> bool {
        self.delivery == Delivery::Program
    }

    /// The location of the module, pinned unless it is a file in the proxy. Asks the registry only
    /// if no digest is given.
    pub fn source(&self, resolve: Resolve<'_>) -> Result<ModuleLocation, PolicyProblem> {
        if self.is_program() {
            return Err(PolicyProblem::new("delivery", "is `program`, so no module is rendered"));
        }
        let Some(module) = &self.file.module else {
            return Err(PolicyProblem::new(
                "module",
                "is required: `oci://HOST/REPOSITORY:TAG`, `https://…/plugin.wasm`, or a file that \
                    the proxy can read",
            ));
        };
        self.located(module, self.file.digest.as_deref(), Wanted::Module, resolve)
    }

    /// The location of the frame filter's module, if the policy has WebSockets.
    pub fn frames_source(
        &self,
        resolve: Resolve<'_>,
    ) -> Result<Option<ModuleLocation>, PolicyProblem> {
        let Some(websockets) = &self.file.websockets else { return Ok(None) };
        let digest = websockets.digest.as_deref();
        self.located(&websockets.module, digest, Wanted::FrameFilter, resolve).map(Some).map_err(
            |problem| PolicyProblem::new(format!("websockets.{}", problem.path), problem.message),
        )
    }

    fn located(
        &self,
        module: &str,
        digest: Option<&str>,
        wanted: Wanted,
        resolve: Resolve<'_>,
    ) -> Result<ModuleLocation, PolicyProblem> {
        let location = source::read(module, digest, wanted, resolve)?.reachable(&self.placement)?;
        Ok(match (self.delivery, wanted) {
            (Delivery::Proxy | Delivery::Program, _) => location,
            (Delivery::ImageVolume, Wanted::Module) => location.mounted(MODULE_FOLDER),
            (Delivery::ImageVolume, Wanted::FrameFilter) => location.mounted(FRAMES_FOLDER),
        })
    }

    /// Images with a tag that is not used, because the policy has a digest beside it; and that
    /// digest.
    pub fn unused_tags(&self) -> Vec<(String, Wanted, String)> {
        let File { module, digest, websockets, .. } = &self.file;
        let module = module.as_deref().map(|module| (module, digest, Wanted::Module));
        let frames = websockets.as_ref();
        let frames = frames.map(|of| (of.module.as_str(), &of.digest, Wanted::FrameFilter));
        let of = |(module, digest, wanted): (&str, &Option<String>, Wanted)| {
            let (image, digest) = source::unused_tag(module, digest.as_deref())?;
            Some((image, wanted, digest))
        };
        module.into_iter().chain(frames).filter_map(of).collect()
    }
}
