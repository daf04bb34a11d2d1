//! Checks the gate's port, its secret, its call to the app, and the profile, which needs a gate.

use std::net::SocketAddr;

use super::Checker;
use super::site::Site;
use super::values::variable;
use crate::file::{File, Gate, GateSecret, Notify, Placement, PlainEnvoy};
use laststream_base::ports;
use laststream_base::time_span::TimeSpan;

/// The reason why this proxy has no gate; `None` if it can have one.
pub(super) fn why_none(placement: &Placement, file: &File) -> Option<&'static str> {
    match placement {
        Placement::Waypoint(_) => (!file.is_mounted() && !file.is_local()).then_some(
            "a waypoint's gate stands in Envoy's bootstrap, where no agent fetches a module: write \
                `delivery: image_volume`, or the path of a file in the waypoint as `module`",
        ),
        // The gate's listener is in the bootstrap, which can load the module only from a file in
        // the pod.
        Placement::EnvoyGateway(_) => (!file.is_mounted()).then_some(
            "needs the module as a file in Envoy Gateway's proxies: write `delivery: image_volume`",
        ),
        Placement::Gateway(_)
        | Placement::GatewayApi(_)
        | Placement::Sidecar(_)
        | Placement::Envoy(_) => None,
    }
}

/// Whether this policy has a gate.
pub(crate) fn has_gate(file: &File) -> bool {
    let why = |placement| why_none(placement, file);
    file.gate.enabled != Some(false) && file.placement.as_ref().and_then(why).is_none()
}

impl Checker {
    pub(super) fn profile(&mut self, file: &File, site: Site<'_>) {
        if file.profile.is_some() && !site.has_gate {
            let why = why_none(site.placement, file);
            let why = why.unwrap_or("leave `gate: {enabled: false}` out");
            self.problem(
                "profile",
                format!("is for drains that a gate holds, and there is none: {why}"),
            );
        }
    }

    pub(super) fn gate_port(
        &mut self,
        gate: &Gate,
        why_none: Option<&'static str>,
        placement: &Placement,
    ) -> Option<u16> {
        if let Some(why) = why_none {
            if gate.enabled == Some(true) || gate.port.is_some() {
                self.problem("gate", why);
            }
            return None;
        }
        let port = gate.port.unwrap_or(ports::GATE);
        if port == 0 {
            self.problem("gate.port", "0 stands for any free port, but hooks must name the port");
        } else if placement.is_istio()
            && [ports::ISTIO, ports::ISTIO_METRICS].concat().contains(&port)
        {
            self.taken_port(port, "Istio");
        } else if placement.is_envoy_gateway() && ports::ENVOY_GATEWAY.contains(&port) {
            self.taken_port(port, "Envoy Gateway");
        }
        gate.enabled.unwrap_or(true).then_some(port)
    }

    /// In the rendered bootstrap the app's cluster is `app`, and the gate's listener needs another
    /// port than `listen` and `admin`.
    pub(super) fn plain_envoy(&mut self, file: &File, envoy: &PlainEnvoy, port: Option<u16>) {
        let app = file.drain.wait_for_app.as_ref().map(|app| &app.cluster);
        let notified = file.gate.notify.as_ref().map(|notify| &notify.cluster);
        for (path, cluster) in
            [("drain.wait_for_app.cluster", app), ("gate.notify.cluster", notified)]
        {
            if cluster.is_some_and(|name| !name.is_empty() && name != "app") {
                self.problem(path, "is not in the rendered bootstrap: the app's cluster is `app`");
            }
        }
        let addresses = [&envoy.listen, &envoy.admin].into_iter().flatten();
        let ports = addresses.filter_map(|text| text.parse::<SocketAddr>().ok());
        if let Some(port) = port.filter(|port| ports.map(|at| at.port()).any(|own| own == *port)) {
            self.taken_port(port, "the policy");
        }
    }

    fn taken_port(&mut self, port: u16, owner: &str) {
        let usual = ports::GATE;
        self.problem(
            "gate.port",
            format!("{port} is one of {owner}'s own ports: take another one, such as {usual}"),
        );
    }

    pub(super) fn gate_access(&mut self, gate: &Gate) {
        if let Some(notify) = &gate.notify {
            self.notify(notify);
        }
        if let Some(every) = gate.evaluate_every.filter(|every| *every < TimeSpan::seconds(5)) {
            let message = format!("{every} is too short: write `5s` or more");
            self.problem("gate.evaluate_every", message);
        }
        self.secret(gate);
    }

    fn notify(&mut self, notify: &Notify) {
        if notify.cluster.is_empty() {
            self.problem(
                "gate.notify.cluster",
                "names no cluster: write Envoy's name of the app's, such as `inbound|8080||`",
            );
        }
        let is_visible = notify.path.bytes().all(|byte| byte.is_ascii_graphic());
        if !notify.path.starts_with('/') || !is_visible {
            self.problem("gate.notify.path", "is not `/` and visible ASCII characters");
        }
        let timeout = notify.timeout.map_or(2_000, TimeSpan::millis);
        if !(50..=60_000).contains(&timeout) {
            self.problem("gate.notify.timeout", format!("{timeout}ms is not from 50ms to 60s"));
        }
    }

    /// No message repeats a value, because the secret itself may stand there by mistake.
    fn secret(&mut self, gate: &Gate) {
        const VARIABLE: &str = "gate.secret.environment";
        if let Some(GateSecret::Environment(name)) = &gate.secret
            && let Err(why) = variable(name, "LASTSTREAM_SECRET")
        {
            self.problem(VARIABLE, why);
        }
        match &gate.secret {
            Some(GateSecret::Environment(name)) if name.starts_with("ISTIO_META") => {
                self.problem(
                    VARIABLE,
                    "begins with `ISTIO_META`, so it would be shown: Istio's agent puts such \
                        variables into the proxy's metadata",
                );
            }
            Some(GateSecret::Sds(path))
                if !path.starts_with('/') || path.chars().any(char::is_control) =>
            {
                self.problem(
                    "gate.secret.sds",
                    "is not an absolute path in the proxy, such as `/etc/laststream/sds.yaml`",
                );
            }
            _ => {}
        }
    }
}
