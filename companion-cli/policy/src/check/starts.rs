//! Checks what starts a drain: a stop hook, or the stop of Istio's agent, which needs none.

use crate::checker::Checker;
use crate::file::{Begin, File, Finish, Starts};
use crate::placement::{Facts, Site};
use laststream_base::versions::Release;

/// The oldest Istio whose agent ends as soon as Envoy has ended, and answers `GET /drain`.
const OLDEST: Release = (1, 21);

impl Checker {
    /// What starts a drain; without a gate nothing does.
    pub(super) fn starts(&mut self, file: &File, istio: Option<Release>, site: Site<'_>) -> Starts {
        let reasons: Vec<_> = for_hooks_only(file, istio, site.facts).collect();
        let usual = site.facts.starts.ok().filter(|_| reasons.is_empty());
        let starts = file.drain.starts.or(usual).filter(|_| site.has_gate).unwrap_or_default();
        if starts == Starts::Hook || reasons.is_empty() {
            return starts;
        }
        for (field, why) in reasons {
            self.problem(field, why);
        }
        Starts::Hook
    }
}

/// The fields that make a stop hook necessary, and why.
fn for_hooks_only<'f>(
    file: &'f File,
    istio: Option<Release>,
    facts: &Facts<'_>,
) -> impl Iterator<Item = (&'static str, &'static str)> + use<'f> {
    let drain = &file.drain;
    let elsewhere = facts.starts.err().map(|why| ("drain.starts", why));
    let is_old = istio.is_some_and(|istio| istio < OLDEST);
    let fields = [
        ("drain.starts", file.job.is_some(), OF_JOB),
        ("drain.starts", is_old, TOO_OLD),
        ("drain.begin", drain.begin == Some(Begin::FailHealthChecks), TOO_LATE),
        ("drain.finish", drain.finish.is_some_and(|finish| finish != Finish::Quit), NO_END),
        ("drain.agent", drain.agent.is_some(), COMPUTED),
        ("drain.grace_from", drain.grace_from.is_some(), OF_HOOKS),
        ("drain.exit_on_zero", drain.exit_on_zero, TWO_ENDS),
    ];
    let fields = fields.into_iter().filter(|(_, needs_hook, _)| *needs_hook);
    elsewhere.into_iter().chain(fields.map(|(field, _, why)| (field, why)))
}

const OF_JOB: &str = "no SIGTERM stops the sidecar of a Job: take `agent` out";
const TOO_OLD: &str =
    "`agent` needs Istio 1.21, whose agent ends together with Envoy: write `hook`";
const TOO_LATE: &str = "comes after Istio's agent has told clients to leave: take it out, or write \
    `starts: hook`";
const NO_END: &str = "does not end Envoy, and no hook does: write `quit`, or `starts: hook`";
const COMPUTED: &str = "follows from the deadline with `starts: agent`: take it out, or write \
    `starts: hook`";
const OF_HOOKS: &str = "is read when a hook asks, and none does: take it out, or write `starts: \
    hook`";
const TWO_ENDS: &str = "ends Envoy by its connections, beside the gate, which counts streams: take \
    it out, or write `starts: hook`";
