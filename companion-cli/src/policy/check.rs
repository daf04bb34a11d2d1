//! Checks a policy file and fills in defaults. All problems are reported together.

mod delivery;
pub(crate) mod end;
mod envoy_gateway;
mod forwarded_for;
mod gate;
mod module;
mod placement;
mod values;
mod websockets;

use serde_json::Value;

use super::file::{
    Begin, Delivery, Engine, FailurePolicy, File, Finish, GateSecret, Job, LongLived, Monitoring,
    Placement, Retries, Scaling,
};
use super::sizing::Usual;
use super::{ForwardedProto, Policy, PolicyProblem, Sizing, sizing, warnings};
use crate::time_span::TimeSpan;

pub(super) fn check(file: File) -> Result<Policy, Vec<PolicyProblem>> {
    let mut found = Checker(Vec::new());
    let policy = found.policy(file);
    if found.0.is_empty() { Ok(policy) } else { Err(found.0) }
}

/// The problems so far. What is wrong is replaced by something harmless in the result, which is
/// then not used.
pub(super) struct Checker(Vec<PolicyProblem>);

const OF_THE_GATE: &str = "is the gate's, and there is none: take it out";
impl Checker {
    pub(super) fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(PolicyProblem::new(path, message));
    }

    fn policy(&mut self, mut file: File) -> Policy {
        let name = file.name.take().unwrap_or_else(|| "laststream".into());
        self.dns_label("name", &name);
        self.labels("labels", &file.labels);
        let placement = self.placement(file.placement.take(), &name);
        let has_namespace = file.namespace.is_some();
        let namespace = self.namespace(file.namespace.take(), &placement);
        if let Some(secret) = &file.pull_secret {
            self.dns_label("pull_secret", secret);
        }
        let delivery = self.delivery(file.delivery, file.module.as_deref());
        let gate_port = self.gate(&file, delivery, &placement);
        let usual = usual_times(&placement, gate_port.is_some());
        let sizing = self.drain(&file, gate_port.is_some(), &placement, usual);
        let change = file.gate.config_change.as_ref();
        let config_drain_time = change.map(|change| self.drain_time(change, &placement, &sizing));
        let forwarded_proto = self.forwarded_proto(file.forwarded_proto.take(), &placement);
        self.clients(&file, forwarded_proto.as_ref(), &placement, gate_port.is_some());
        let longest = sizing.longest_request;
        let retries = file.retries.take().map(|retries| self.retries(retries, longest));
        self.beside_the_proxy(&file, delivery);
        let (count, long_lived) =
            self.end(file.end.as_ref(), &file.drain, file.count.take(), gate_port.is_some());
        let checked = Checked {
            name,
            namespace,
            placement,
            delivery,
            count,
            forwarded_proto,
            gate_port,
            config_drain_time,
            long_lived,
            sizing,
            retries,
        };
        let mut policy = checked.with_defaults(file);
        policy.warnings = warnings::of(&policy, has_namespace);
        self.module(&mut policy);
        policy
    }

    /// The gate's port, if there is a gate.
    fn gate(&mut self, file: &File, delivery: Delivery, placement: &Placement) -> Option<u16> {
        let why_no_gate = gate::why_none(placement, delivery, file.module.as_deref());
        let gate_port = self.gate_port(&file.gate, why_no_gate, placement);
        self.gate_access(&file.gate, why_no_gate.is_none());
        self.program_image(file.program_image.as_deref(), placement);
        let by_overlay = matches!(placement, Placement::GatewayApi(_) | Placement::Waypoint(_));
        if by_overlay && matches!(file.gate.secret, Some(GateSecret::Sds(_))) {
            self.problem(
                "gate.secret.sds",
                "needs a file in the pod and a hook that reads it, which istiod's Deployments \
                    have not: write `environment`",
            );
        }
        if let Placement::Envoy(envoy) = placement {
            self.plain_envoy(file, envoy, gate_port);
        }
        if is_envoy_gateway(placement) {
            if file.failure_policy == Some(FailurePolicy::Reload) {
                self.problem(
                    "failure_policy",
                    "`reload` is unknown to Envoy Gateway: write `open` or `closed`",
                );
            }
            let secret = file.gate.secret.as_ref().filter(|_| gate_port.is_some());
            self.hook_of_envoy_gateway(file.program_image.is_some(), secret, gate_port.is_some());
            self.module_of_envoy_gateway(delivery, gate_port.is_some());
        }
        gate_port
    }

    /// What depends on the clients: where they are named, and their WebSockets.
    fn clients(
        &mut self,
        file: &File,
        proto: Option<&ForwardedProto>,
        placement: &Placement,
        has_gate: bool,
    ) {
        if let Some(from) = &file.forwarded_for {
            self.forwarded_for(from, proto, placement);
        }
        if let Some(websockets) = &file.websockets {
            let ends = (has_gate, file.end.is_some());
            self.websockets(websockets, placement, ends, file.module.as_deref());
        }
    }

    /// A Job, what watches the proxies, and what scales them.
    fn beside_the_proxy(&mut self, file: &File, delivery: Delivery) {
        if let Some(job) = &file.job {
            self.job(job);
            if delivery == Delivery::ImageVolume {
                self.problem(
                    "delivery",
                    "`image_volume` is not written for the pods of a Job: write `ecds`",
                );
            }
        }
        self.0.extend(file.monitoring.iter().flat_map(Monitoring::problems));
        self.0.extend(file.scaling.iter().flat_map(Scaling::problems));
        if let Some(scaling) = &file.scaling {
            self.dns_label("scaling.deployment", &scaling.deployment);
        }
    }

    /// A field without effect is an error.
    fn drain(
        &mut self,
        file: &File,
        has_gate: bool,
        placement: &Placement,
        usual: Usual,
    ) -> Sizing {
        const OF_ISTIO: &str = "is Istio's, which is not there: take it out";
        const NO_APP: &str = "a gateway has no app that ends with it, so a drain would wait until \
            its deadline: take it out";
        let (drain, in_istio) = (&file.drain, is_istio(placement));
        // Without a gate they are for Istio's own drain, and for Envoy's.
        let has_times = has_gate || !is_envoy_gateway(placement);
        let has_longest = has_times || file.retries.is_some();
        for (field, is_written, works, why) in [
            ("drain.begin", drain.begin.is_some(), has_gate, OF_THE_GATE),
            ("drain.finish", drain.finish.is_some(), has_gate, OF_THE_GATE),
            ("drain.long_lived", drain.long_lived.is_some(), has_gate, OF_THE_GATE),
            ("drain.long_lived_after", drain.long_lived_after.is_some(), has_gate, OF_THE_GATE),
            ("drain.wait_for_app", drain.wait_for_app.is_some(), has_gate, OF_THE_GATE),
            ("drain.quiet", drain.quiet.is_some(), has_gate, OF_THE_GATE),
            ("drain.delay", drain.delay.is_some(), has_gate, OF_THE_GATE),
            ("drain.deadline", drain.deadline.is_some(), has_times, OF_THE_GATE),
            ("drain.grace_period", drain.grace_period.is_some(), has_times, OF_THE_GATE),
            ("drain.longest_request", drain.longest_request.is_some(), has_longest, OF_THE_GATE),
            ("drain.agent", drain.agent.is_some(), in_istio, OF_ISTIO),
            ("drain.exit_on_zero", drain.exit_on_zero, in_istio, OF_ISTIO),
        ] {
            if is_written && !works {
                self.problem(field, why);
            }
        }
        if drain.wait_for_app.is_some() && has_gate && !has_app(placement) {
            self.problem("drain.wait_for_app", NO_APP);
        }
        if drain.finish == Some(Finish::DrainAgent) && has_gate && !in_istio {
            self.problem(
                "drain.finish",
                "`drain_agent` tells Istio's agent, which is not there: write `nothing` or `quit`",
            );
        }
        sizing::fit(drain, usual).unwrap_or_else(|problem| {
            self.0.push(problem);
            harmless()
        })
    }

    fn retries(&mut self, retries: Retries, longest: TimeSpan) -> Retries {
        self.host("retries.host", &retries.host);
        let attempts = retries.attempts.unwrap_or(2);
        if !(1..=10).contains(&attempts) {
            self.problem("retries.attempts", format!("{attempts} is not from 1 to 10"));
        }
        let retry_on = retries.retry_on.unwrap_or_else(|| "connect-failure,refused-stream".into());
        let is_list =
            retry_on.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-,".contains(&byte));
        if retry_on.is_empty() || !is_list {
            self.problem(
                "retries.retry_on",
                format!(
                    "`{retry_on}` is not a list of Envoy's conditions with commas between them"
                ),
            );
        }
        let per_try_timeout = Some(retries.per_try_timeout.unwrap_or(longest));
        Retries {
            host: retries.host,
            attempts: Some(attempts),
            per_try_timeout,
            retry_on: Some(retry_on),
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

/// The fields that checking changes; the others are as the file has them.
struct Checked {
    name: String,
    namespace: Option<String>,
    placement: Placement,
    delivery: Delivery,
    count: Option<Value>,
    forwarded_proto: Option<ForwardedProto>,
    gate_port: Option<u16>,
    config_drain_time: Option<TimeSpan>,
    long_lived: Option<LongLived>,
    sizing: Sizing,
    retries: Option<Retries>,
}

impl Checked {
    fn with_defaults(self, file: File) -> Policy {
        Policy {
            failure_policy: self.failure_policy(&file),
            begin: file.drain.begin.unwrap_or_else(|| usual_begin(&self.placement)),
            finish: file.drain.finish.unwrap_or_else(|| usual_finish(&self.placement)),
            name: self.name,
            namespace: self.namespace,
            labels: file.labels,
            placement: self.placement,
            delivery: self.delivery,
            pull_secret: file.pull_secret,
            program_image: file.program_image,
            count: self.count,
            forwarded_proto: self.forwarded_proto,
            engine: file.engine.unwrap_or(Engine::Auto),
            forwarded_for: file.forwarded_for,
            gate_port: self.gate_port,
            gate_secret: file.gate.secret,
            gate_hosts: file.gate.hosts,
            notify: file.gate.notify,
            config_drain_time: self.config_drain_time,
            long_lived: self.long_lived.unwrap_or_default(),
            long_lived_after: file.drain.long_lived_after,
            end: file.end,
            app: file.drain.wait_for_app,
            sizing: self.sizing,
            exit_on_zero: file.drain.exit_on_zero,
            websockets: file.websockets,
            retries: self.retries,
            job: file.job,
            monitoring: file.monitoring,
            scaling: file.scaling,
            warnings: Vec::new(),
            gate_dropped: false,
            module: file.module,
            digest: file.digest,
        }
    }

    fn failure_policy(&self, file: &File) -> FailurePolicy {
        file.failure_policy.unwrap_or_else(|| {
            // Envoy Gateway's controller fetches the counter in any case.
            let is_fetched = is_envoy_gateway(&self.placement);
            let delivery = if is_fetched { Delivery::Proxy } else { self.delivery };
            delivery::usual_failure_policy(delivery, file.module.as_deref())
        })
    }
}

fn usual_begin(placement: &Placement) -> Begin {
    if is_envoy_gateway(placement) { Begin::FailHealthChecks } else { Begin::DrainListeners }
}

fn usual_finish(placement: &Placement) -> Finish {
    if is_istio(placement) { Finish::DrainAgent } else { Finish::Nothing }
}

fn is_envoy_gateway(placement: &Placement) -> bool {
    matches!(placement, Placement::EnvoyGateway(_))
}

fn has_app(placement: &Placement) -> bool {
    matches!(placement, Placement::Sidecar(_) | Placement::Envoy(_))
}

fn is_istio(placement: &Placement) -> bool {
    !matches!(placement, Placement::EnvoyGateway(_) | Placement::Envoy(_))
}

fn usual_times(placement: &Placement, has_gate: bool) -> Usual {
    match placement {
        Placement::EnvoyGateway(_) if has_gate => Usual::ENVOY_GATEWAY,
        Placement::EnvoyGateway(_) | Placement::Envoy(_) => Usual::ENVOY,
        _ => Usual::ISTIO,
    }
}

fn harmless() -> Sizing {
    let (second, minute) = (TimeSpan::seconds(1), TimeSpan::seconds(60));
    Sizing {
        longest_request: second,
        grace_period: minute,
        deadline: minute,
        quiet: second,
        delay: TimeSpan::default(),
        agent: second,
    }
}
