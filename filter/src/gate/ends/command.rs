//! `POST /end`: an operator ends a share of the streams, with or without a drain.

use super::job::{CommandJob, JobKind};
use super::pacing::Window;
use crate::census::ender::YOUNG;
use crate::census::{EndFilter, EndOrder, EndSurvey, Kinds, StreamKind};
use crate::gate::config_drain::ConfigDrain;
use crate::gate::gate::{Gate, respond_json};
use crate::gate::http::{RequestError, parameter, parse_limit, parse_time};
use crate::gate::replies::{EndOutcome, json, kind_names};
use crate::gate::snapshot::Snapshot;
use crate::gate::streams::oldest_streams;
use crate::host::{Control, Level};

/// The parameters of `POST /end`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndCommand {
    pub(crate) kinds: Kinds,
    /// Per cent.
    pub(crate) share: u64,
    /// Milliseconds.
    pub(crate) over: u64,
    pub(crate) changing: bool,
    pub(crate) dry_run: bool,
    /// The most streams that a dry run lists.
    pub(crate) limit: usize,
}

/// A command that waits for the replies of the counters.
#[derive(Debug, Clone)]
pub(crate) struct PendingEnd {
    pub(crate) stream: u32,
    command: EndCommand,
    which: EndFilter,
    asked_at: u64,
    /// The rounds of the first and the last query to the counters, and when the last one was sent.
    /// There can be several, because a counter looks at the responses of only a part of its streams
    /// in one pass.
    first_round: u64,
    last_round: u64,
    sent_at: u64,
}

/// The time that the counters have to reply, because a worker may be busy; milliseconds.
const REPLY_WAIT: u64 = 1_000;
/// The interval between two passes of a counter, each of which takes some 3 ms; milliseconds.
const PASS_INTERVAL: u64 = 10;
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
/// The invalid parameter, and how it is written.
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
const UNSEEN: &str = "no stream is ended: more requests wait than the counters could look at in \
    time, and of none of these it is known whether it matches; try again";
const NO_KINDS: &str = "no counter keeps the kinds of its streams: set `count.kinds`, or add a \
    section `end` to the policy";

impl Gate {
    /// Begins a command or a dry run: asks the counters how many streams match.
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
        let pending = PendingEnd {
            stream,
            command,
            which,
            asked_at: now,
            first_round: 0,
            last_round: 0,
            sent_at: now,
        };
        let first_round = self.query_endable(host, &pending);
        self.ends.pending = Some(PendingEnd { first_round, last_round: first_round, ..pending });
    }

    /// Asks the counters how many streams match, and returns the round.
    fn query_endable(&mut self, host: &impl Control, pending: &PendingEnd) -> u64 {
        let PendingEnd { command, which, asked_at, .. } = pending;
        let order = EndOrder {
            scopes: &self.policy.scopes,
            job: JobKind::Query as u64,
            which: *which,
            how: self.policy.end.how,
            count: 0,
            list_limit: if command.dry_run { command.limit } else { 0 },
            look_since: *asked_at,
            drain_began: 0,
        };
        let (round, _) = self.sources.census.order_ends(host, order);
        round
    }

    fn is_command_active(&self, host: &impl Control, now: u64) -> bool {
        self.ends.read(host).command.is_some_and(|job| job.is_active(now))
    }

    /// Answers the pending command, once every counter has replied or its time is over.
    pub(in crate::gate) fn answer_pending_end(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let Some(mut pending) = self.ends.pending.take() else { return };
        let (now, job, scopes) = (snapshot.now, JobKind::Query as u64, &self.policy.scopes);
        let since = |round| self.sources.census.end_survey(host, scopes, job, round);
        let survey = since(pending.first_round);
        let is_complete = survey.replied == survey.asked && survey.unseen == 0;
        if !is_complete && now < pending.asked_at.saturating_add(REPLY_WAIT) {
            let is_next_due = now >= pending.sent_at.saturating_add(PASS_INTERVAL);
            if is_next_due && since(pending.last_round).unseen > 0 {
                (pending.last_round, pending.sent_at) = (self.query_endable(host, &pending), now);
            }
            self.ends.pending = Some(pending);
            return;
        }
        let PendingEnd { stream, command, first_round, .. } = &pending;
        let matching = survey.certain(command.kinds);
        let total = matching.saturating_mul(command.share).div_ceil(100);
        let (status, reason) = self.start_command(host, now, &pending, survey, total);
        if status == 409 {
            return self.respond_plainly(host, *stream, status, &reason);
        }
        let listings = self.sources.census.end_listings(host, scopes, job, *first_round);
        let is_listed = command.dry_run && status == 200;
        let limit = if is_listed { command.limit } else { 0 };
        let outcome = EndOutcome {
            state: snapshot.record.phase,
            reason,
            matching,
            ending: if status < 300 { total } else { 0 },
            streams: oldest_streams(snapshot.now, &listings, limit),
        };
        respond_json(host, *stream, status, &json(&outcome));
    }

    /// Begins the ends, unless it is a dry run. Returns the status of the response, and its reason.
    fn start_command(
        &self,
        host: &impl Control,
        now: u64,
        pending: &PendingEnd,
        survey: EndSurvey,
        total: u64,
    ) -> (u16, String) {
        let EndCommand { kinds, over, dry_run, .. } = pending.command;
        let (names, matching, over_s) = (kind_names(kinds), survey.certain(kinds), over / 1_000);
        match survey {
            EndSurvey { replied: 0, .. } => return (409, NO_COUNTER.into()),
            EndSurvey { with_kinds: 0, .. } => return (409, NO_KINDS.into()),
            EndSurvey { unseen: 1.., .. } if matching == 0 => return (409, UNSEEN.into()),
            _ if matching == 0 => return (200, format!("no stream matches: {names}")),
            _ => {}
        }
        let missing = match survey.asked - survey.replied {
            0 => String::new(),
            missing => format!("; {missing} counters have not answered"),
        };
        let (at_least, unseen) = match survey.unseen {
            0 => ("", String::new()),
            unseen => ("at least ", format!("; {unseen} more were not looked at in time")),
        };
        let what = format!(
            "at most {total} of {at_least}{matching} streams ({names}) over {over_s} s{missing}\
             {unseen}"
        );
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

    /// Stops the ends of `POST /end`, and those of streams that are older than a change, for all
    /// known changes.
    pub(in crate::gate) fn stop_end(&mut self, host: &impl Control, stream: u32) {
        let now = host.monotonic_time();
        let drain_time = self.policy.config_drain_time.unwrap_or_default();
        let changes = ConfigDrain::read(host);
        let (mut stopped, mut ends_of_change) = (None, None);
        self.ends.update(host, &mut |state| {
            stopped = state.command.take().filter(|job| job.is_active(now));
            let is_going_on = changes.unclosed(now, drain_time).contains(&state.config_moment)
                && state.config_moment > state.config_stopped;
            ends_of_change = is_going_on.then_some(state.config.ordered);
            state.config_stopped = state.config_stopped.max(changes.newest());
            state.stopped_at = now;
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
#[path = "command_tests.rs"]
mod tests;
