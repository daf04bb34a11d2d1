//! Checks the gate's port, its secret, its call to the app, and the profile, which needs a gate.

use crate::checker::{Checker, variable};
use crate::file::{File, GateSecret, GateSection, Notify};
use crate::placement::{Facts, GateModule, Placement, Site};
use laststream_base::ports;
use laststream_base::time_span::TimeSpan;

/// The reason why this proxy has no gate; `None` if it can have one.
fn why_none(facts: &Facts<'_>, file: &File) -> Option<&'static str> {
    if file.is_program() {
        return None;
    }
    match facts.gate_module {
        GateModule::Fetched => None,
        GateModule::File(why) => (!file.is_mounted() && !file.is_local()).then_some(why),
        GateModule::Mounted(why) => (!file.is_mounted()).then_some(why),
    }
}

/// Whether this policy has a gate.
pub(crate) fn has_gate(file: &File) -> bool {
    let why = |placement: &Placement| why_none(&placement.facts(), file);
    file.gate.enabled != Some(false) && file.placement.as_ref().and_then(why).is_none()
}

impl Checker {
    pub(super) fn profile(&mut self, file: &File, site: Site<'_>) {
        if file.profile.is_some() && !site.has_gate {
            let why = why_none(site.facts, file);
            let why = why.unwrap_or("leave `gate: {enabled: false}` out");
            self.problem(
                "profile",
                format!("is for drains that a gate holds, and there is none: {why}"),
            );
        }
    }

    /// Checks the section `gate`, and returns the gate's port if there is a gate.
    pub(super) fn gate_port(&mut self, file: &File, facts: &Facts<'_>) -> Option<u16> {
        let port = self.port(&file.gate, facts, why_none(facts, file));
        self.gate_access(&file.gate);
        if let Some(image) = &file.program_image {
            self.image("program_image", image);
        }
        port
    }

    fn port(
        &mut self,
        gate: &GateSection,
        facts: &Facts<'_>,
        why_none: Option<&'static str>,
    ) -> Option<u16> {
        if let Some(why) = why_none {
            if gate.enabled == Some(true) || gate.port.is_some() {
                self.problem("gate", why);
            }
            return None;
        }
        let port = gate.port.unwrap_or(ports::GATE);
        let (owner, taken) = facts.controller.ports();
        if port == 0 {
            self.problem("gate.port", "0 stands for any free port, but hooks must name the port");
        } else if taken.concat().contains(&port) {
            self.taken_port(port, owner);
        }
        gate.enabled.unwrap_or(true).then_some(port)
    }

    fn gate_access(&mut self, gate: &GateSection) {
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
        let is_wrong = |time: &TimeSpan| !(50..=60_000).contains(&time.millis());
        if let Some(time) = notify.timeout.filter(is_wrong) {
            self.problem("gate.notify.timeout", format!("{time} is not from 50ms to 60s"));
        }
    }

    /// No message repeats a value, because the secret itself may stand there by mistake.
    fn secret(&mut self, gate: &GateSection) {
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
