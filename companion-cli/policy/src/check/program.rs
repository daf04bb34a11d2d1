//! Checks of `delivery: program`: the gate is laststream's program beside Envoy, and no module is
//! there for the fields that are the module's.

use crate::checker::Checker;
use crate::file::File;
use crate::placement::{Controller, Facts};

impl Checker {
    pub(super) fn program(&mut self, file: &File, facts: &Facts<'_>) {
        if !file.is_program() {
            return;
        }
        if let Some(why) = facts.no_program {
            self.problem("delivery", why);
            return;
        }
        let has_no_policies = facts.controller == Controller::None;
        for (field, is_wrong, why) in [
            ("delivery", file.gate.enabled == Some(false), NO_GATE),
            ("module", file.module.is_some(), NO_MODULE),
            ("digest", file.digest.is_some(), NO_MODULE),
            ("failure_policy", file.failure_policy.is_some(), NO_MODULE),
            ("forwarded_proto", file.forwarded_proto.is_some(), NO_FILTERS),
            ("forwarded_for", file.forwarded_for.is_some(), NO_FILTERS),
            ("engine", file.engine.is_some(), NO_FILTERS),
            ("stream_idle", has_no_policies && file.stream_idle.is_some(), NO_FILTERS),
            ("gate.secret", file.gate.secret.is_some(), NO_SECRET),
            ("gate.notify", file.gate.notify.is_some(), NO_CLUSTERS),
            ("drain.wait_for_app", file.drain.wait_for_app.is_some(), NO_CLUSTERS),
            ("drain.drain_timeout_jitter", file.drain.drain_timeout_jitter.is_some(), NO_FILTERS),
            ("drain.grace_from", file.drain.grace_from.is_some(), NO_STATE),
            ("count.tcp", has_tcp(file), NO_TCP),
            ("job", file.job.is_some(), NO_JOB),
        ] {
            if is_wrong {
                self.problem(field, why);
            }
        }
        if !has_no_policies && file.program_image.is_none() {
            self.problem("program_image", NO_IMAGE);
        }
    }
}

fn has_tcp(file: &File) -> bool {
    file.count.as_ref().is_some_and(|count| count.get("tcp").is_some())
}

const NO_GATE: &str = "is the gate's, and there is none: take it out, or `enabled: false`";
const NO_MODULE: &str = "is the module's, and there is none with `delivery: program`: take it out";
const NO_FILTERS: &str = "needs filters in Envoy's listeners, and `delivery: program` renders \
    none: take one of them out";
const NO_SECRET: &str = "is not handed to the program by the rendered files, whose gate listens on \
    the loopback interface only: take it out";
const NO_CLUSTERS: &str = "names a cluster of Envoy, which the program does not know: take it out, \
    or give the program's own `--config` an address";
const NO_STATE: &str = "is read by a filter in the gate's listener, and the program has none: take \
    it out";
const NO_TCP: &str = "needs Envoy's `connection_limit` filter in the gate's own listener, and the \
    program has none: take it out";
const NO_JOB: &str = "has a sidecar, whose gate is the module's: take `delivery` out";
const NO_IMAGE: &str = "is required, because the gate is a program in the pod: write an image \
    with `laststream-hook` as `/laststream`";
