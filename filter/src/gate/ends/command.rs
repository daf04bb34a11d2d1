//! `POST /end`: an operator ends a share of the streams, with or without a drain.

use super::job::{CommandJob, JobKind};
use super::pacing::Window;
use crate::census::ender::YOUNG;
use crate::census::{EndFilter, EndOrder, EndSurvey, Kinds, StreamKind};
use crate::gate::config_drain::Draining;
use crate::gate::gate::{Gate, respond_json};
use crate::gate::http::{RequestError, parameter, parse_limit, parse_time};
use crate::gate::replies::{EndOutcome, json, kind_names};
use crate::gate::snapshot::Snapshot;
use crate::gate::streams::oldest_streams;
use crate::host::{Control, Level};

/// What an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndCommand {
    pub(crate) kinds: Kinds,
    /// Per cent.
    pub(crate) share: u64,
    /// Milliseconds.
    pub(crate) over: u64,
    pub(crate) changing: bool,
    pub(crate) dry_run: bool,
    /// How many streams a dry run lists.
    pub(crate) limit: usize,
}

/// A command that waits for the replies of the counters.
#[derive(Debug, Clone)]
pub(crate) struct PendingEnd {
    pub(crate) stream: u32,
    command: EndCommand,
    which: EndFilter,
    round: u64,
    asked_at: u64,
}

/// How long the counters may take to reply; milliseconds. A worker may be busy.
const REPLY_WAIT: u64 = 1_000;
/// The longest window; milliseconds. A day.
const LONGEST: u64 = 86_400_000;

const KIND: RequestError = RequestError::Query(
    "name one kind or more: POST /end?kind=websocket,event_stream; known: waiting, websocket, \
     grpc, event_stream, other",
);
const SHARE: RequestError = RequestError::Query(
    "`share` is the percentage of the streams to end, a whole number from 1 to 100: share=10",
);
const OVER: RequestError = RequestError::Query(
    "`over` is the time over which the ends are spread, from 1s to 24h: over=60s",
);
const PARAMETERS: RequestError = RequestError::Query(
    "POST /end takes `kind`, `share`, `over`, `changing`, `dry_run` and `limit`, each once",
);
const FLAG: RequestError =
    RequestError::Query("`changing` and `dry_run` take no value, `true` or `false`: &dry_run");

/// The command in the query of `POST /end`. A parameter that is not known is an error, because a
/// misspelled `dry_run` would end streams.
///
/// # Errors
/// Which parameter is invalid, and how it is written.
pub(crate) fn parse_end(query: &str) -> Result<EndCommand, RequestError> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut unseen = vec!["kind", "share", "over", "changing", "dry_run", "limit"];
    for name in pairs.map(|pair| pair.split('=').next().unwrap_or_default()) {
        let index = unseen.iter().position(|known| *known == name).ok_or(PARAMETERS)?;
        unseen.swap_remove(index);
    }
    let words = parameter(query, "kind").unwrap_or_default().split(',');
    let kinds: Result<Vec<StreamKind>, _> = words.map(str::parse).collect();
    let share = parameter(query, "share").and_then(|share| crate::parse::digits(share.as_bytes()));
    let over = parameter(query, "over").and_then(parse_time);
    Ok(EndCommand {
        kinds: Kinds::of(&kinds.map_err(|_| KIND)?),
        share: share.filter(|share| (1..=100).contains(share)).ok_or(SHARE)?,
        over: over.filter(|over| (1_000..=LONGEST).contains(over)).ok_or(OVER)?,
        changing: parse_flag(query, "changing")?,
        dry_run: parse_flag(query, "dry_run")?,
        limit: parse_limit(query)?,
    })
}

fn parse_flag(query: &str, name: &str) -> Result<bool, RequestError> {
    match parameter(query, name) {
        None | Some("false") => Ok(false),
        Some("" | "true") => Ok(true),
        Some(_) => Err(FLAG),
    }
}

const BUSY: &str =
    "streams are already being ended: see `ends` of /status, and DELETE /end to stop";
const STOPPED: &str = "DELETE /end came before the counters had answered: no stream is ended";
const NO_COUNTER: &str = "no counter of streams has answered: see `count` of /status";
const NO_KINDS: &str = "no counter keeps the kinds of its streams: set `count.kinds`, or add a \
    section `end` to the policy";

impl Gate {
    /// Asks the counters how many streams match.
    pub(in crate::gate) fn begin_end(
        &mut self,
        host: &impl Control,
        stream: u32,
        command: EndCommand,
    ) {
        let now = host.monotonic_time();
        if self.ends.pending.is_some() || !command.dry_run && self.is_command_active(host, now) {
            return self.respond_plainly(host, stream, 409, BUSY);
        }
        let EndCommand { kinds, changing, .. } = command;
        // Streams that begin later, because their clients connect anew, are left alone.
        let began_before = now.saturating_sub(YOUNG);
        let which = EndFilter { kinds, changing, began_before, plain_only: false };
        let list_limit = if command.dry_run { command.limit } else { 0 };
        let order = EndOrder {
            scopes: &self.policy.scopes,
            job: JobKind::Query as u64,
            which,
            how: self.policy.end.how,
            count: 0,
            list_limit,
        };
        let round = self.sources.census.order_ends(host, order);
        self.ends.pending = Some(PendingEnd { stream, command, which, round, asked_at: now });
    }

    fn is_command_active(&self, host: &impl Control, now: u64) -> bool {
        self.ends.read(host).command.is_some_and(|job| job.is_active(now))
    }

    /// Answers the pending command, once every counter has replied or taken too long.
    pub(in crate::gate) fn answer_pending_end(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let (job, scopes) = (JobKind::Query as u64, &self.policy.scopes);
        let Some(pending) = &self.ends.pending else { return };
        let survey = self.sources.census.end_survey(host, scopes, job, pending.round);
        if survey.replied < survey.asked
            && snapshot.now < pending.asked_at.saturating_add(REPLY_WAIT)
        {
            return;
        }
        let Some(pending) = self.ends.pending.take() else { return };
        let PendingEnd { stream, command, .. } = &pending;
        let total = survey.endable.saturating_mul(command.share).div_ceil(100);
        let (status, reason) = self.start_command(host, snapshot.now, &pending, survey, total);
        if status == 409 {
            return self.respond_plainly(host, *stream, status, &reason);
        }
        let listings = self.sources.census.end_listings(host, scopes, job, pending.round);
        let is_listed = command.dry_run && status == 200;
        let limit = if is_listed { command.limit } else { 0 };
        let outcome = EndOutcome {
            state: snapshot.record.phase,
            reason,
            matching: survey.endable,
            ending: if status < 300 { total } else { 0 },
            streams: oldest_streams(snapshot.now, &listings, limit),
        };
        respond_json(host, *stream, status, &json(&outcome));
    }

    /// The status of the response, and its reason.
    fn start_command(
        &self,
        host: &impl Control,
        now: u64,
        pending: &PendingEnd,
        survey: EndSurvey,
        total: u64,
    ) -> (u16, String) {
        let EndCommand { kinds, over, dry_run, .. } = pending.command;
        let (names, matching, over_s) = (kind_names(kinds), survey.endable, over / 1_000);
        match survey {
            EndSurvey { replied: 0, .. } => return (409, NO_COUNTER.into()),
            EndSurvey { with_kinds: 0, .. } => return (409, NO_KINDS.into()),
            EndSurvey { endable: 0, .. } => return (200, format!("no stream matches: {names}")),
            _ => {}
        }
        let missing = match survey.asked - survey.replied {
            0 => String::new(),
            missing => format!("; {missing} counters have not answered"),
        };
        let what =
            format!("at most {total} of {matching} streams ({names}) over {over_s} s{missing}");
        if dry_run {
            return (200, format!("would end {what}"));
        }
        let window = Window { from: now, to: now.saturating_add(over) };
        let job = CommandJob { which: pending.which, window, total, ..CommandJob::default() };
        let mut refusal = None;
        self.ends.update(host, &mut |state| {
            let is_busy = state.command.is_some_and(|other| other.is_active(now));
            let is_stopped = state.stopped_at >= pending.asked_at;
            refusal = is_busy.then_some(BUSY).or(is_stopped.then_some(STOPPED));
            if refusal.is_none() {
                state.command = Some(job);
            }
        });
        if let Some(refusal) = refusal {
            return (409, refusal.into());
        }
        host.log(Level::Warning, &format!("on command the gate ends {what}"));
        (202, format!("ends {what}"))
    }

    /// Stops what `POST /end` began, and the ends of streams that are older than a change.
    pub(in crate::gate) fn stop_end(&mut self, host: &impl Control, stream: u32) {
        let now = host.monotonic_time();
        let change = self.config_draining(host).map_or(0, Draining::moment);
        let (mut stopped, mut ends_of_change) = (None, None);
        self.ends.update(host, &mut |state| {
            stopped = state.command.take().filter(|job| job.is_active(now));
            let is_going_on = change > 0 && state.config_moment == change;
            ends_of_change = Some(state.config.ordered)
                .filter(|_| is_going_on && state.config_stopped != change);
            (state.config_stopped, state.stopped_at) = (change, now);
        });
        let of_command = stopped.map(|job| {
            let CommandJob { total, progress, .. } = job;
            format!("the ends were stopped: {} of {total} were ordered", progress.ordered)
        });
        let of_change = ends_of_change.map(|ordered| {
            format!("the ends after a change of configuration were stopped: {ordered} were ordered")
        });
        let lines: Vec<String> = of_command.into_iter().chain(of_change).collect();
        for line in &lines {
            host.log(Level::Warning, line);
        }
        let reason = match lines.is_empty() {
            true => "no streams are being ended on command, or after a change".into(),
            false => lines.join("; "),
        };
        self.respond_plainly(host, stream, 200, &reason);
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{EndCommand, parse_end};
    use crate::census::ending::{EndReply, EndRequest};
    use crate::census::index::{IndexEntry, add_to_index, register_queue};
    use crate::census::{Kinds, StreamKind};
    use crate::config::wire::{self, Scope};
    use crate::fake::Fake;
    use crate::gate::Gate;
    use crate::gate::http::RequestError;
    use crate::gate::policy::Policy;
    use crate::host::Control as _;

    #[wasm_bindgen_test(unsupported = test)]
    fn parses_what_is_within_bounds() {
        let kinds = Kinds::of(&[StreamKind::Websocket]);
        let plain = EndCommand {
            kinds,
            share: 10,
            over: 60_000,
            changing: false,
            dry_run: false,
            limit: 20,
        };
        assert_eq!(parse_end("kind=websocket&share=10&over=60s"), Ok(plain.clone()));
        let both = Kinds::of(&[StreamKind::Websocket, StreamKind::EventStream]);
        assert_eq!(
            parse_end(
                "kind=websocket,event_stream&share=100&over=24h&dry_run&changing=true&limit=1"
            ),
            Ok(EndCommand {
                kinds: both,
                share: 100,
                over: 86_400_000,
                changing: true,
                dry_run: true,
                limit: 1
            })
        );
        for (query, word) in [
            ("share=10&over=60s", "kind"),
            ("kind=&share=10&over=60s", "kind"),
            ("kind=websockets&share=10&over=60s", "kind"),
            ("kind=websocket,&share=10&over=60s", "kind"),
            ("kind=websocket&over=60s", "share"),
            ("kind=websocket&share=0&over=60s", "share"),
            ("kind=websocket&share=101&over=60s", "share"),
            ("kind=websocket&share=101%25&over=60s", "share"),
            ("kind=websocket&share=-1&over=60s", "share"),
            ("kind=websocket&share=10", "over"),
            ("kind=websocket&share=10&over=", "over"),
            ("kind=websocket&share=10&over=999ms", "over"),
            ("kind=websocket&share=10&over=25h", "over"),
            ("kind=websocket&share=10&over=99999999999999999999s", "over"),
            ("kind=websocket&share=10&over=60s&limit=0", "limit"),
        ] {
            rejects(query, word);
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_misspelled_flag_ends_no_stream() {
        const VALID: &str = "kind=websocket&share=10&over=60s";
        for typo in ["dryrun", "dry-run", "dry_Run=true", "dry%5Frun", "x=1", "=1", "dry_run "] {
            rejects(&format!("{VALID}&{typo}"), "takes `kind`");
        }
        for twice in ["dry_run=false&dry_run", "kind=other", "limit=1&limit=2"] {
            rejects(&format!("{VALID}&{twice}"), "each once");
        }
        for value in ["0", "1", "no", "off", "False", "TRUE", "true "] {
            rejects(&format!("{VALID}&dry_run={value}"), "take no value");
            rejects(&format!("{VALID}&changing={value}"), "take no value");
        }
        for (flag, expected) in [("", true), ("=", true), ("=true", true), ("=false", false)] {
            let command = parse_end(&format!("{VALID}&dry_run{flag}&changing{flag}&"));
            let flags = command.map(|command| (command.dry_run, command.changing));
            assert_eq!(flags, Ok((expected, expected)), "{flag}");
        }
    }

    fn rejects(query: &str, word: &str) {
        match parse_end(query) {
            Err(RequestError::Query(why)) => assert!(why.contains(word), "{query}: {why}"),
            other => panic!("{query}: {other:?}"),
        }
    }

    /// The statuses of the responses to a command, if an operator sends `DELETE /end` to another
    /// worker before the counters have answered, or does not.
    fn statuses(is_stopped: bool) -> Vec<u16> {
        let host = Fake::default();
        host.clock.set(40_000);
        let queue = register_queue(&host).expect("a queue");
        let (scope, since, configuration) = (Scope::Gateway, 1, 1);
        add_to_index(&host, IndexEntry { queue, scope, since, configuration });
        let gate = || Gate::new(&host, 1, Policy::new(wire::Gate::default())).expect("metrics");
        let (mut one, mut other) = (gate(), gate());
        let command = parse_end("kind=websocket&share=100&over=1s").expect("a command");
        one.begin_end(&host, 7, command);
        host.clock.set(40_010);
        if is_stopped {
            other.stop_end(&host, 8);
        }
        let request = host.dequeue(queue).and_then(|message| EndRequest::parse(&message));
        let EndRequest { reply_to, job, round, .. } = request.expect("a request");
        let reply = EndReply { queue, job, round, knows_kinds: true, endable: 5 };
        host.enqueue(reply_to, reply.to_text().as_bytes());
        one.sources.census.receive_replies(&host);
        let snapshot = one.evaluate(&host);
        one.answer_pending_end(&host, &snapshot);
        host.answers.borrow().iter().map(|(_, status, _)| *status).collect()
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_command_that_is_stopped_before_it_begins_ends_nothing() {
        assert_eq!(statuses(false), [202]);
        assert_eq!(statuses(true), [200, 409]);
    }
}
