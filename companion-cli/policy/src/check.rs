//! Checks a policy file and fills in defaults. All problems are reported together.

mod delivery;
pub(crate) mod end;
mod envoy_gateway;
mod forwarded_for;
mod gate;
mod module;
mod placement;
mod site;
mod streams;
mod values;
mod websockets;

use super::file::{
    Drain, Engine, FailurePolicy, File, Finish, GateSecret, Gateways, Job, MOST_ATTEMPTS,
    Placement, Retries,
};
use super::{ForwardedProto, Policy, PolicyProblem, Sizing, sizing, warnings};
use laststream_base::time_span::TimeSpan;
use site::Site;
use values::variable;

pub(super) use gate::has_gate;

pub(super) fn check(file: File) -> Result<Policy, Vec<PolicyProblem>> {
    let mut found = Checker(Vec::new());
    let policy = found.policy(file);
    if found.0.is_empty() { Ok(policy) } else { Err(found.0) }
}

/// The problems found so far. An invalid value is replaced by a harmless one in the resulting
/// policy, which is then discarded.
pub(super) struct Checker(Vec<PolicyProblem>);

const OF_THE_GATE: &str = "is the gate's, and there is none: take it out";
const OF_ISTIO: &str = "is Istio's, which is not there: take it out";
const NO_LIMIT: &str = "istiod lets streams be silent for ever: take it out";
const HAS_AGENT: &str =
    "is for proxies without Istio's agent, which is the stop hook here: take it out";
const NO_RELOAD: &str = "`reload` is unknown to Envoy Gateway: write `open` or `closed`";
const NO_FILE: &str = "needs a file in the pod and a hook that reads it, which istiod's \
    Deployments have not: write `environment`";
const NO_APP: &str = "a gateway has no app that ends with it, so a drain would wait until its \
    deadline: take it out";
const NO_AGENT: &str =
    "`drain_agent` tells Istio's agent, which is not there: write `nothing` or `quit`";

impl Checker {
    pub(super) fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(PolicyProblem::new(path, message));
    }

    fn policy(&mut self, file: File) -> Policy {
        let name = file.name.clone().unwrap_or_else(|| "laststream".into());
        self.dns_label("name", &name);
        self.labels("labels", &file.labels);
        let usual_placement = || Placement::Gateway(Gateways::default());
        let mut placement = file.placement.clone().unwrap_or_else(usual_placement);
        self.placement(&mut placement, &name);
        let istio = self.istio(file.istio.as_deref());
        let namespace = self.namespace(file.namespace.clone(), &placement);
        if let Some(secret) = &file.pull_secret {
            self.dns_subdomain("pull_secret", secret);
        }
        self.delivery(&file);
        let gate_port = self.gate(&file, &placement);
        let site = Site { placement: &placement, has_gate: gate_port.is_some() };
        self.without_effect(&file, site);
        let sizing = self.drain(&file.drain, site);
        let forwarded_proto = self.forwarded_proto(file.forwarded_proto.clone(), &placement);
        self.clients(&file, forwarded_proto.as_ref(), site);
        self.streams(file.streams, site);
        self.profile(&file, site);
        self.beside_the_proxy(&file);
        let (count, long_lived) = self.end(&file);
        let mut policy = Policy {
            failure_policy: delivery::failure_policy(&file, &placement),
            begin: file.drain.begin.unwrap_or_else(|| placement.usual_begin()),
            finish: file.drain.finish.unwrap_or_else(|| placement.usual_finish()),
            engine: file.engine.unwrap_or(Engine::Auto),
            name,
            namespace,
            istio,
            placement,
            delivery: file.delivery.unwrap_or_default(),
            count,
            forwarded_proto,
            gate_port,
            long_lived,
            sizing,
            given: Vec::new(),
            warnings: Vec::new(),
            gate_dropped: false,
            file,
        };
        policy.warnings = warnings::of(&policy);
        self.module(&mut policy);
        policy
    }

    /// The gate's port, if there is a gate.
    fn gate(&mut self, file: &File, placement: &Placement) -> Option<u16> {
        let why_no_gate = gate::why_none(placement, file);
        let gate_port = self.gate_port(&file.gate, why_no_gate, placement);
        self.gate_access(&file.gate);
        if let Some(image) = &file.program_image {
            self.image("program_image", image);
        }
        if let Placement::Envoy(envoy) = placement {
            self.plain_envoy(file, envoy, gate_port);
        }
        if placement.is_envoy_gateway() {
            self.hook_of_envoy_gateway(file, gate_port.is_some());
            self.module_of_envoy_gateway(file, gate_port.is_some());
        }
        gate_port
    }

    fn clients(&mut self, file: &File, proto: Option<&ForwardedProto>, site: Site<'_>) {
        if let Some(from) = &file.forwarded_for {
            self.forwarded_for(from, proto, site.placement);
        }
        if let Some(websockets) = &file.websockets {
            self.websockets(websockets, file, site);
        }
    }

    fn beside_the_proxy(&mut self, file: &File) {
        if let Some(retries) = &file.retries {
            self.retries(retries);
        }
        if let Some(job) = &file.job {
            self.job(job);
            if file.is_mounted() {
                self.problem(
                    "delivery",
                    "`image_volume` is not written for the pods of a Job: take it out, or write \
                        `proxy`",
                );
            }
        }
    }

    /// A field or a value that has no effect here, or cannot work here, is an error.
    fn without_effect(&mut self, file: &File, site: Site<'_>) {
        let Site { placement, has_gate } = site;
        let (gate, drain, in_istio) = (&file.gate, &file.drain, placement.is_istio());
        let is_sds = matches!(gate.secret, Some(GateSecret::Sds(_)));
        let by_overlay = matches!(placement, Placement::GatewayApi(_) | Placement::Waypoint(_));
        let reloads = file.failure_policy == Some(FailurePolicy::Reload);
        let waits_for_app = drain.wait_for_app.is_some() && has_gate;
        let drains_agent = drain.finish == Some(Finish::DrainAgent) && has_gate;
        // Without a gate, these times apply to Istio's own drain, or to Envoy's.
        let has_times = has_gate || !placement.is_envoy_gateway();
        let has_longest = has_times || file.retries.is_some();
        for (field, is_written, works, why) in [
            ("gate.secret", gate.secret.is_some(), has_gate, OF_THE_GATE),
            ("gate.hosts", !gate.hosts.is_empty(), has_gate, OF_THE_GATE),
            ("gate.evaluate_every", gate.evaluate_every.is_some(), has_gate, OF_THE_GATE),
            ("gate.notify", gate.notify.is_some(), has_gate, OF_THE_GATE),
            ("drain.begin", drain.begin.is_some(), has_gate, OF_THE_GATE),
            ("drain.finish", drain.finish.is_some(), has_gate, OF_THE_GATE),
            ("drain.long_lived", drain.long_lived.is_some(), has_gate, OF_THE_GATE),
            ("drain.long_lived_after", drain.long_lived_after.is_some(), has_gate, OF_THE_GATE),
            ("drain.wait_for_app", drain.wait_for_app.is_some(), has_gate, OF_THE_GATE),
            ("drain.quiet", drain.quiet.is_some(), has_gate, OF_THE_GATE),
            ("drain.delay", drain.delay.is_some(), has_gate, OF_THE_GATE),
            ("drain.grace_from", drain.grace_from.is_some(), has_gate, OF_THE_GATE),
            ("drain.deadline", drain.deadline.is_some(), has_times, OF_THE_GATE),
            ("drain.grace_period", drain.grace_period.is_some(), has_times, OF_THE_GATE),
            ("drain.longest_request", drain.longest_request.is_some(), has_longest, OF_THE_GATE),
            ("drain.agent", drain.agent.is_some(), in_istio, OF_ISTIO),
            ("drain.exit_on_zero", drain.exit_on_zero, in_istio, OF_ISTIO),
            ("end", file.end.is_some(), has_gate, OF_THE_GATE),
            ("istio", file.istio.is_some(), in_istio, OF_ISTIO),
            ("stream_idle", file.stream_idle.is_some(), placement.limits_silence(), NO_LIMIT),
            ("program_image", file.program_image.is_some(), !in_istio, HAS_AGENT),
            ("failure_policy", reloads, !placement.is_envoy_gateway(), NO_RELOAD),
            ("gate.secret.sds", is_sds, !by_overlay, NO_FILE),
            ("drain.wait_for_app", waits_for_app, placement.has_app(), NO_APP),
            ("drain.finish", drains_agent, in_istio, NO_AGENT),
        ] {
            if is_written && !works {
                self.problem(field, why);
            }
        }
    }

    /// Checks the section `drain` and fits its times.
    fn drain(&mut self, drain: &Drain, site: Site<'_>) -> Sizing {
        let example = "TERMINATION_GRACE_PERIOD_SECONDS";
        if let Some(name) = &drain.grace_from
            && let Err(why) = variable(name, example)
        {
            self.problem("drain.grace_from", format!("`{name}` {why}"));
        }
        sizing::fit(drain, site.usual_times()).unwrap_or_else(|problem| {
            self.0.push(problem);
            // Harmless times: a deadline of 60s.
            let (longest, second) = (TimeSpan::seconds(57), TimeSpan::seconds(1));
            sizing::drain_sizing(longest, second, TimeSpan::default(), second)
        })
    }

    fn retries(&mut self, retries: &Retries) {
        self.host("retries.host", &retries.host);
        let is_wrong = |attempts: &u16| !(1..=MOST_ATTEMPTS).contains(attempts);
        if let Some(attempts) = retries.attempts.filter(is_wrong) {
            let message = format!("{attempts} is not from 1 to {MOST_ATTEMPTS}");
            self.problem("retries.attempts", message);
        }
        let is_of_list = |byte: u8| byte.is_ascii_alphanumeric() || b"-,".contains(&byte);
        let is_wrong = |list: &&str| list.is_empty() || !list.bytes().all(is_of_list);
        if let Some(list) = retries.retry_on.as_deref().filter(is_wrong) {
            let message =
                format!("`{list}` is not a list of Envoy's conditions with commas between them");
            self.problem("retries.retry_on", message);
        }
    }

    fn job(&mut self, job: &Job) {
        if let Some(name) = &job.name {
            self.dns_label("job.name", name);
        }
        self.dns_label("job.container", &job.container);
        if job.command.is_empty() {
            self.problem(
                "job.command",
                "is empty: write the container's own command, which is run \
                behind `laststream exec --`",
            );
        }
        self.image("job.program_image", &job.program_image);
        if job
            .program
            .as_ref()
            .is_some_and(|program| !program.starts_with('/') || !values::is_word(program))
        {
            self.problem("job.program", "is not an absolute path, such as `/laststream`");
        }
    }
}
