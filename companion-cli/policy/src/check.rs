//! Checks a policy file and fills in defaults. All problems are reported together.

mod counting;
pub(crate) mod end;
mod forwarded_for;
pub(crate) mod gate;
mod module;
mod program;
mod starts;
mod websockets;

use crate::checker::{Checker, is_word, variable};
use crate::error::PolicyProblem;
use crate::file::{Begin, Drain, Engine, FailurePolicy, File, Finish, GateSecret, Job, Retries};
use crate::file::{MOST_ATTEMPTS, Show};
use crate::placement::{Controller, Facts, GateParts, Site};
use crate::policy::{ForwardedProto, Policy};
use crate::sizing::{self, Sizing, UsualDrain};
use crate::warnings;
use laststream_base::istio::ROOT_NAMESPACE;
use laststream_base::time_span::TimeSpan;
use laststream_base::versions::{self, Release};

pub(super) fn check(file: File) -> Result<Policy, Vec<PolicyProblem>> {
    let mut checker = Checker::default();
    let policy = checker.policy(file);
    if checker.0.is_empty() { Ok(policy) } else { Err(checker.0) }
}

const OF_THE_GATE: &str = "is the gate's, and there is none: take it out";
const JITTER: &str = "drain.drain_timeout_jitter";
const NO_MANAGERS: &str = "is of Envoy's connection managers, which no resource here changes: take \
    it out";
const OF_ISTIO: &str = "is Istio's, which is not there: take it out";
const NO_LIMIT: &str = "Istio does not limit the silence of streams: take it out";
const HAS_AGENT: &str =
    "is for proxies without Istio's agent, which is the stop hook here: take it out";
const NO_RELOAD: &str = "`reload` is unknown to Envoy Gateway: write `open` or `closed`";
const NO_FILE: &str = "needs a file in the pod and a hook that reads it, which istiod's \
    Deployments have not: write `environment`";
const NO_APP: &str = "a gateway has no app that ends with it, so a drain would wait until its \
    deadline: take it out";
const NO_AGENT: &str =
    "`drain_agent` tells Istio's agent, which is not there: write `nothing` or `quit`";
const NO_NAMESPACE: &str = "is required: the proxies' own, where the resources must be, too; a \
    resource in Istio's root namespace reaches proxies of all namespaces";

const ANY_DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

impl Checker {
    fn policy(&mut self, file: File) -> Policy {
        let name = file.name.clone().unwrap_or_else(|| "laststream".into());
        self.dns_label("name", &name);
        self.labels("labels", &file.labels);
        let mut placement = file.placement.clone().unwrap_or_default();
        placement.check(self, &name);
        let facts = placement.facts();
        let istio = self.istio(file.istio.as_deref());
        let namespace = self.namespace(file.namespace.clone(), &facts);
        if let Some(secret) = &file.pull_secret {
            self.dns_subdomain("pull_secret", secret);
        }
        self.delivery(&file);
        self.program(&file, &facts);
        let gate_port = self.gate_port(&file, &facts);
        placement.check_gate(self, &gate_parts(&file, gate_port));
        let site = Site { facts: &facts, has_gate: gate_port.is_some() };
        self.without_effect(&file, site);
        let starts = self.starts(&file, istio, site);
        let usual = facts.drain.started_by(starts);
        let sizing = self.drain(&file.drain, usual, site.has_gate);
        let forwarded_proto = self.forwarded_proto(file.forwarded_proto.clone(), &facts);
        self.clients(&file, forwarded_proto.as_ref(), site);
        self.streams(&file, site);
        self.profile(&file, site);
        self.beside_the_proxy(&file);
        let by_envoy = self.by_envoy(&file, site);
        let tcp = self.tcp(&file, site);
        let (count, long_lived) = self.end(&file);
        let mut policy = Policy {
            failure_policy: failure_policy(&file, &facts),
            starts,
            begin: file.drain.begin.unwrap_or_else(|| begin(usual, &sizing)),
            finish: file.drain.finish.unwrap_or(usual.finish),
            engine: file.engine.unwrap_or(Engine::Auto),
            name,
            namespace,
            istio,
            placement: placement.clone(),
            delivery: file.delivery.unwrap_or_default(),
            by_envoy,
            tcp,
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
        // A policy without other problems is asked for its module where that is needed.
        if !self.0.is_empty() && policy.file.module.is_some() {
            self.0.extend(policy.source(&|_, _| Ok(ANY_DIGEST.into())).err());
        }
        policy
    }

    fn istio(&mut self, text: Option<&str>) -> Option<Release> {
        let text = text?;
        let release = versions::release(text);
        release.map_err(|fix| self.problem("istio", format!("`{text}` is no version: {fix}"))).ok()
    }

    fn namespace(&mut self, written: Option<String>, facts: &Facts<'_>) -> Option<String> {
        let root = || facts.class.map(|_| ROOT_NAMESPACE.to_owned());
        let namespace = written.or_else(root);
        match &namespace {
            Some(namespace) => self.dns_label("namespace", namespace),
            None if facts.controller == Controller::None => {}
            None => self.problem("namespace", NO_NAMESPACE),
        }
        namespace
    }

    fn delivery(&mut self, file: &File) {
        let is_wrong = |module: &&str| file.is_mounted() && !module.starts_with("oci://");
        if let Some(module) = file.module.as_deref().filter(is_wrong) {
            self.problem(
                "delivery",
                format!(
                    "an image volume needs an image, and `{module}` is none: write `module: \
                        oci://…`, or take it out"
                ),
            );
        }
    }

    fn clients(&mut self, file: &File, proto: Option<&ForwardedProto>, site: Site<'_>) {
        if let Some(from) = &file.forwarded_for {
            self.forwarded_for(from, proto, site.facts);
        }
        if let Some(websockets) = &file.websockets {
            self.websockets(websockets, file, site);
        }
    }

    /// Checks what the listing of streams shows: a filter of Envoy writes it, in front of the
    /// module.
    fn streams(&mut self, file: &File, site: Site<'_>) {
        if file.streams.show == Show::Nothing {
            return;
        }
        match site.facts.no_show {
            Some(why) => self.problem("streams.show", why),
            None if !site.has_gate => self.problem("streams", OF_THE_GATE),
            None => {}
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
        let Site { facts, has_gate } = site;
        let (gate, drain, in_istio) =
            (&file.gate, &file.drain, facts.controller == Controller::Istio);
        let knows_reload = facts.controller != Controller::EnvoyGateway;
        let takes_program = !in_istio || file.is_program();
        let is_sds = matches!(gate.secret, Some(GateSecret::Sds(_)));
        let reloads = file.failure_policy == Some(FailurePolicy::Reload);
        let waits_for_app = drain.wait_for_app.is_some() && has_gate;
        let drains_agent = drain.finish == Some(Finish::DrainAgent) && has_gate;
        // Without a gate, these times apply to Istio's own drain, or to Envoy's.
        let has_times = has_gate || knows_reload;
        let changes_managers = facts.no_show.is_none();
        let has_longest = has_times || file.retries.is_some();
        let of_the_gate = fields_of_the_gate(file)
            .into_iter()
            .map(|(field, is_written)| (field, is_written, has_gate, OF_THE_GATE));
        for (field, is_written, works, why) in of_the_gate.chain([
            ("drain.deadline", drain.deadline.is_some(), has_times, OF_THE_GATE),
            ("drain.grace_period", drain.grace_period.is_some(), has_times, OF_THE_GATE),
            ("drain.longest_request", drain.longest_request.is_some(), has_longest, OF_THE_GATE),
            ("drain.agent", drain.agent.is_some(), in_istio, OF_ISTIO),
            ("drain.exit_on_zero", drain.exit_on_zero, in_istio, OF_ISTIO),
            (JITTER, drain.drain_timeout_jitter.is_some(), changes_managers, NO_MANAGERS),
            ("end", file.end.is_some(), has_gate, OF_THE_GATE),
            ("istio", file.istio.is_some(), in_istio, OF_ISTIO),
            ("stream_idle", file.stream_idle.is_some(), !in_istio, NO_LIMIT),
            ("program_image", file.program_image.is_some(), takes_program, HAS_AGENT),
            ("failure_policy", reloads, knows_reload, NO_RELOAD),
            ("gate.secret.sds", is_sds, facts.takes_sds, NO_FILE),
            ("drain.wait_for_app", waits_for_app, facts.has_app, NO_APP),
            ("drain.finish", drains_agent, in_istio, NO_AGENT),
        ]) {
            if is_written && !works {
                self.problem(field, why);
            }
        }
    }

    /// Checks the section `drain` and fits its times.
    fn drain(&mut self, drain: &Drain, usual: UsualDrain, has_gate: bool) -> Sizing {
        let example = "TERMINATION_GRACE_PERIOD_SECONDS";
        if let Some(name) = &drain.grace_from
            && let Err(why) = variable(name, example)
        {
            self.problem("drain.grace_from", format!("`{name}` {why}"));
        }
        if drain.behind.is_some() && drain.begin == Some(Begin::Nothing) {
            self.problem("drain.behind", "needs a `delay`, and `begin: nothing` has none");
        }
        if drain.drain_timeout_jitter.is_some_and(|percent| !(1..=100).contains(&percent)) {
            self.problem(JITTER, "is not from 1 to 100");
        }
        let usual = if has_gate { usual.behind(drain.behind) } else { usual.without_gate() };
        sizing::fit(drain, usual).unwrap_or_else(|problem| {
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
        let is_wrong = |program: &&String| !program.starts_with('/') || !is_word(program);
        if job.program.as_ref().filter(is_wrong).is_some() {
            self.problem("job.program", "is not an absolute path, such as `/laststream`");
        }
    }
}

/// Unless the file names one: `Reload` for a local file or an image volume, which is always there;
/// otherwise `Open`, because an unreachable registry must not take a gateway down.
fn failure_policy(file: &File, facts: &Facts<'_>) -> FailurePolicy {
    // Envoy Gateway's controller fetches the counter in any case.
    let is_fetched = facts.controller == Controller::EnvoyGateway;
    let is_there = file.is_local() || file.is_mounted() && !is_fetched;
    let usual = if is_there { FailurePolicy::Reload } else { FailurePolicy::Open };
    file.failure_policy.unwrap_or(usual)
}

/// The call that the gate makes unless the file names one; only one that comes later needs a delay.
fn begin(usual: UsualDrain, sizing: &Sizing) -> Begin {
    let is_late = usual.begin == Begin::Nothing && sizing.delay > TimeSpan::default();
    if is_late { Begin::DrainListeners } else { usual.begin }
}

fn gate_parts(file: &File, port: Option<u16>) -> GateParts<'_> {
    GateParts {
        gate: &file.gate,
        drain: &file.drain,
        program_image: file.program_image.as_deref(),
        is_mounted: file.is_mounted(),
        port,
    }
}

/// The fields that only a gate reads, and whether they are written.
fn fields_of_the_gate(file: &File) -> [(&'static str, bool); 14] {
    let (gate, drain) = (&file.gate, &file.drain);
    [
        ("gate.secret", gate.secret.is_some()),
        ("gate.hosts", !gate.hosts.is_empty()),
        ("gate.evaluate_every", gate.evaluate_every.is_some()),
        ("gate.notify", gate.notify.is_some()),
        ("drain.starts", drain.starts.is_some()),
        ("drain.begin", drain.begin.is_some()),
        ("drain.finish", drain.finish.is_some()),
        ("drain.long_lived", drain.long_lived.is_some()),
        ("drain.long_lived_after", drain.long_lived_after.is_some()),
        ("drain.wait_for_app", drain.wait_for_app.is_some()),
        ("drain.quiet", drain.quiet.is_some()),
        ("drain.delay", drain.delay.is_some()),
        ("drain.behind", drain.behind.is_some()),
        ("drain.grace_from", drain.grace_from.is_some()),
    ]
}
