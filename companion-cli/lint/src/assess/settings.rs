//! The settings of one proxy, wherever they are written: in its pod, in annotations, in the values
//! of a chart, in the mesh.

use laststream_assess::{Agent, Hook, Job, Proxy, ProxyGate, ProxyKind};
use laststream_base::time_span::{is_time, milliseconds};
use serde_json::Value;

use super::facts::{DRAIN, EXIT_ON_ZERO, MINIMUM, metadata, value};
use super::hooks;
use super::mesh::{Defaults, Mesh};
use manifest_lint::{DEFAULT_GRACE, Node, Pod, ProxySelector, Selected};

/// The agent's default of `MINIMUM`, in milliseconds.
const USUAL_MINIMUM: u64 = 5_000;
/// The variable by which older agents drain longer.
const OLDER_DRAIN: &str = "TERMINATION_DRAIN_DURATION_SECONDS";
/// The variable in which Istio's webhook gives a proxy its settings.
const PROXY_CONFIG: &str = "PROXY_CONFIG";

/// The nodes with the settings of one proxy. Those that take precedence come first.
#[derive(Default)]
pub(super) struct Settings<'g> {
    /// Maps of Istio's ProxyConfig.
    pub(super) configs: Vec<Node<'g>>,
    /// Environment variables: lists of Kubernetes, or maps of a chart.
    pub(super) variables: Vec<Node<'g>>,
    pub(super) hook: Option<Node<'g>>,
    pub(super) grace: Option<Node<'g>>,
    /// Whether the whole pod is here, so that it has the default of what is not.
    pub(super) is_whole: bool,
    pub(super) gate: Option<ProxyGate>,
    pub(super) job: Job,
    pub(super) defaults: Defaults<'g>,
}

impl<'g> Settings<'g> {
    /// The settings in the parts of a pod, patches first.
    pub(super) fn of_pod(mesh: &Mesh<'g>, place: Node<'g>, parts: &[Pod<'g>], name: &str) -> Self {
        let names = &[name];
        let proxies: Vec<Node<'g>> =
            parts.iter().flat_map(|part| part.proxies_named(names)).collect();
        let mut hooks = proxies.iter().filter_map(|proxy| proxy.fields("lifecycle.preStop"));
        let selected = parts.first().map(|pod| Selected::of(*pod));
        let objects = mesh.proxy_configs.iter().filter(|object| {
            let selector = ProxySelector::of_plugin(**object);
            selected.as_ref().is_some_and(|selected| selector.may_select(selected))
        });
        let objects = objects.filter_map(|object| object.spec()?.get("environmentVariables"));
        Self {
            configs: parts.iter().filter_map(|part| part.proxy_config()).collect(),
            variables: proxies.iter().filter_map(|proxy| proxy.get("env")).chain(objects).collect(),
            hook: hooks.next(),
            grace: parts.iter().find_map(|part| part.grace()),
            is_whole: parts.iter().any(|part| part.is_whole() || part.is_overlay()),
            gate: parts.iter().find_map(|part| mesh.gate(*part)),
            job: Job::No,
            defaults: mesh.defaults(place),
        }
    }

    pub(super) fn proxy(&self, kind: ProxyKind, mesh: &Mesh<'g>) -> Proxy {
        let hook = self.hook.filter(|hook| !hooks::is_istios(*hook));
        let is_sidecar = matches!(
            kind,
            ProxyKind::ClassicSidecar | ProxyKind::NativeSidecar | ProxyKind::Sidecar
        );
        let hook = hook.or(mesh.hook.filter(|_| is_sidecar));
        let by_hook = hook.and_then(hooks::gate_of);
        let gate = match (self.gate, by_hook) {
            (Some(gate), _) if gate.is_started_by_agent => Some(gate),
            // Without a hook that asks it, the gate holds nothing.
            (Some(gate), Some(by_hook)) => {
                Some(ProxyGate { deadline: gate.deadline.min(by_hook.deadline), ..gate })
            }
            (_, by_hook) => by_hook,
        };
        let may_be_native = matches!(kind, ProxyKind::NativeSidecar | ProxyKind::Sidecar);
        let is_drained = self.hook.is_some_and(hooks::is_istios) && !may_be_native;
        // An agent that has drained already ends Envoy at SIGTERM, at once.
        let drained = Agent { drain: Some(0), is_assumed: false, exit_on_zero: None };
        Proxy {
            grace: match self.grace {
                Some(grace) => grace.number(),
                None => self.is_whole.then_some(DEFAULT_GRACE),
            },
            hook: hook.map_or(Hook::None, hooks::time_of),
            agent: if is_drained { drained } else { self.agent() },
            gate,
            job: self.job,
            ..Proxy::of(kind)
        }
    }

    fn agent(&self) -> Agent {
        let minimum = || match self.variable(MINIMUM) {
            Some(text) => milliseconds(text).unwrap_or(USUAL_MINIMUM),
            None => USUAL_MINIMUM,
        };
        let is_on = self.variable(EXIT_ON_ZERO).is_some_and(|text| text == "true");
        let mut configs = self.configs.iter().chain(&self.defaults.configs);
        let exit_on_zero = is_on.then(minimum);
        let injected = self.injected();
        let setting = configs.find_map(|config| config.field(DRAIN));
        let written = setting.map(|node| node.text().and_then(time));
        let injected_drain = || {
            let text = injected.as_ref()?.get(DRAIN)?.as_str()?.to_owned();
            Some(time(&text))
        };
        let older = self.variable(OLDER_DRAIN).map(|_| None);
        match older.or(written).or_else(injected_drain) {
            Some(drain) => Agent { drain, is_assumed: false, exit_on_zero },
            None => {
                let is_assumed = !self.defaults.is_known && injected.is_none();
                Agent { is_assumed, exit_on_zero, ..Agent::default() }
            }
        }
    }

    /// The settings that Istio's webhook has written into the pod.
    fn injected(&self) -> Option<Value> {
        let text = self.variables.iter().find_map(|list| value(*list, PROXY_CONFIG))?;
        serde_json::from_str(text.trim()).ok()
    }

    /// The value of a variable of the proxy.
    fn variable(&self, name: &str) -> Option<&'g str> {
        let of_container = self.variables.iter().find_map(|list| value(*list, name));
        let configs = self.configs.iter().chain(&self.defaults.configs).copied();
        of_container.or_else(|| metadata(configs, name))
    }
}

/// A time as Istio reads it: with its unit.
fn time(text: &str) -> Option<u64> {
    is_time(text).then(|| milliseconds(text)).flatten()
}
