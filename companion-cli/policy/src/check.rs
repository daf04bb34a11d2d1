//! Checks a policy file and fills in defaults. All problems are reported together.

mod delivery;
pub(crate) mod end;
mod envoy_gateway;
mod forwarded_for;
mod gate;
mod module;
mod placement;
mod profile;
mod site;
mod streams;
mod values;
mod websockets;

use super::file::{
    Delivery, Engine, FailurePolicy, File, Finish, GateSecret, Gateways, Job, MOST_ATTEMPTS,
    Placement, Retries,
};
use super::{ForwardedProto, Policy, PolicyProblem, Sizing, sizing, warnings};
use laststream_base::time_span::TimeSpan;
use site::Site;

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
        let istio = self.istio(file.istio.as_deref(), &placement);
        let namespace = self.namespace(file.namespace.clone(), &placement);
        if let Some(secret) = &file.pull_secret {
            self.dns_subdomain("pull_secret", secret);
        }
        let delivery = file.delivery.unwrap_or_default();
        self.delivery(delivery, file.module.as_deref());
        let gate_port = self.gate(&file, delivery, &placement);
        let site = Site { placement: &placement, has_gate: gate_port.is_some() };
        let sizing = self.drain(&file, site);
        let forwarded_proto = self.forwarded_proto(file.forwarded_proto.clone(), &placement);
        self.clients(&file, forwarded_proto.as_ref(), site);
        self.streams(file.streams, site);
        self.profile(&file, site);
        let longest = sizing.longest_request;
        let retries = file.retries.clone().map(|retries| self.retries(retries, longest));
        self.beside_the_proxy(&file, delivery);
        let (count, long_lived) = self.end(&file, site.has_gate);
        let mut policy = Policy {
            failure_policy: failure_policy(&file, &placement),
            begin: file.drain.begin.unwrap_or_else(|| placement.usual_begin()),
            finish: file.drain.finish.unwrap_or_else(|| placement.usual_finish()),
            engine: file.engine.unwrap_or(Engine::Auto),
            name,
            namespace,
            istio,
            placement,
            delivery,
            count,
            forwarded_proto,
            gate_port,
            long_lived,
            sizing,
            retries,
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
        if placement.is_envoy_gateway() {
            if file.failure_policy == Some(FailurePolicy::Reload) {
                self.problem(
                    "failure_policy",
                    "`reload` is unknown to Envoy Gateway: write `open` or `closed`",
                );
            }
            self.hook_of_envoy_gateway(file, gate_port.is_some());
            self.module_of_envoy_gateway(delivery, gate_port.is_some());
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

    fn beside_the_proxy(&mut self, file: &File, delivery: Delivery) {
        if let Some(job) = &file.job {
            self.job(job);
            if delivery == Delivery::ImageVolume {
                self.problem(
                    "delivery",
                    "`image_volume` is not written for the pods of a Job: take it out, or write \
                        `proxy`",
                );
            }
        }
    }

    /// Checks the section `drain` and fits its times. A field without effect is an error.
    fn drain(&mut self, file: &File, site: Site<'_>) -> Sizing {
        const NO_APP: &str = "a gateway has no app that ends with it, so a drain would wait until \
            its deadline: take it out";
        let Site { placement, has_gate } = site;
        let (drain, in_istio) = (&file.drain, placement.is_istio());
        // Without a gate, these times apply to Istio's own drain, or to Envoy's.
        let has_times = has_gate || !placement.is_envoy_gateway();
        let has_longest = has_times || file.retries.is_some();
        for (field, is_written, works, why) in [
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
        ] {
            if is_written && !works {
                self.problem(field, why);
            }
        }
        if drain.wait_for_app.is_some() && has_gate && !placement.has_app() {
            self.problem("drain.wait_for_app", NO_APP);
        }
        if let Some(name) = &drain.grace_from {
            self.variable("drain.grace_from", name, "TERMINATION_GRACE_PERIOD_SECONDS");
        }
        if drain.finish == Some(Finish::DrainAgent) && has_gate && !in_istio {
            self.problem(
                "drain.finish",
                "`drain_agent` tells Istio's agent, which is not there: write `nothing` or `quit`",
            );
        }
        sizing::fit(drain, site.usual_times()).unwrap_or_else(|problem| {
            self.0.push(problem);
            harmless()
        })
    }

    fn retries(&mut self, retries: Retries, longest: TimeSpan) -> Retries {
        self.host("retries.host", &retries.host);
        let attempts = retries.attempts.unwrap_or(2);
        if !(1..=MOST_ATTEMPTS).contains(&attempts) {
            let message = format!("{attempts} is not from 1 to {MOST_ATTEMPTS}");
            self.problem("retries.attempts", message);
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

fn failure_policy(file: &File, placement: &Placement) -> FailurePolicy {
    file.failure_policy.unwrap_or_else(|| {
        // Envoy Gateway's controller fetches the counter in any case.
        let delivery = file.delivery.filter(|_| !placement.is_envoy_gateway()).unwrap_or_default();
        delivery::usual_failure_policy(delivery, file.module.as_deref())
    })
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
