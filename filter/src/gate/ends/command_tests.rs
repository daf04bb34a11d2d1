//! Commands to end streams, on a fake Envoy.

use wasm_bindgen_test::wasm_bindgen_test;

use super::{EndCommand, parse_end};
use crate::census::ending::{EndReply, EndRequest};
use crate::census::index::{IndexEntry, add_to_index, register_queue};
use crate::census::{Kinds, MOST_ORDERED, StreamKind};
use crate::config::wire::{self, Scope};
use crate::fake::Fake;
use crate::gate::Gate;
use crate::gate::config_drain::ConfigDrain;
use crate::gate::ends::job::CommandJob;
use crate::gate::ends::pacing::Window;
use crate::gate::http::RequestError;
use crate::gate::policy::Policy;
use crate::host::Control as _;

#[wasm_bindgen_test(unsupported = test)]
fn parameters_within_their_bounds_are_parsed() {
    let kinds = Kinds::of(&[StreamKind::Websocket]);
    let plain =
        EndCommand { kinds, share: 10, over: 60_000, changing: false, dry_run: false, limit: 20 };
    assert_eq!(parse_end("kind=websocket&share=10&over=60s"), Ok(plain.clone()));
    let both = Kinds::of(&[StreamKind::Websocket, StreamKind::EventStream]);
    assert_eq!(
        parse_end("kind=websocket,event_stream&share=100&over=24h&dry_run&changing=true&limit=1"),
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

/// A counter's queue.
fn counter(host: &Fake) -> u32 {
    let queue = register_queue(host).expect("a queue");
    let (scope, since, configuration) = (Scope::Gateway, 1, 1);
    add_to_index(host, IndexEntry::new(queue, scope, since, configuration));
    queue
}

fn gate(host: &Fake) -> Gate {
    Gate::new(host, 1, Policy::new(wire::Gate::default())).expect("metrics")
}

/// Lets the counter reply to a request, and returns whether there was one.
fn reply(host: &Fake, gate: &mut Gate, queue: u32, endable: u64, unseen: u64) -> bool {
    let request = host.dequeue(queue).and_then(|message| EndRequest::parse(&message));
    if let Some(EndRequest { reply_to, job, round, .. }) = request {
        let reply = EndReply { queue, job, round, knows_kinds: true, endable, unseen };
        host.enqueue(reply_to, reply.to_text().as_bytes());
    }
    gate.sources.census.receive_replies(host);
    let snapshot = gate.evaluate(host);
    gate.answer_pending_end(host, &snapshot);
    request.is_some()
}

/// The statuses of all responses to a command. If `is_stopped`, an operator sends `DELETE /end` to
/// another worker before the counters have answered.
fn statuses(is_stopped: bool) -> Vec<u16> {
    let host = Fake::default();
    host.clock.set(40_000);
    let queue = counter(&host);
    let (mut one, mut other) = (gate(&host), gate(&host));
    let command = parse_end("kind=websocket&share=100&over=1s").expect("a command");
    one.begin_end(&host, 7, command);
    host.clock.set(40_010);
    if is_stopped {
        other.stop_end(&host, 8);
    }
    assert!(reply(&host, &mut one, queue, 5, 0), "a request");
    host.answers.borrow().iter().map(|(_, status, _)| *status).collect()
}

#[wasm_bindgen_test(unsupported = test)]
fn a_command_that_is_stopped_before_it_begins_ends_nothing() {
    assert_eq!(statuses(false), [202]);
    assert_eq!(statuses(true), [200, 409]);
}

/// The number of passes of the counter until a command to end a tenth of the waiting requests is
/// answered, and the status and the body of the answer. Each pass replies how many requests match,
/// and at how many it has not looked.
fn tenth(replies: impl IntoIterator<Item = (u64, u64)>) -> (usize, u16, String) {
    let host = Fake::default();
    host.clock.set(40_000);
    let queue = counter(&host);
    let mut gate = gate(&host);
    gate.begin_end(&host, 7, parse_end("kind=waiting&share=10&over=1s").expect("a command"));
    let mut passes = 0;
    for (endable, unseen) in replies {
        passes += usize::from(reply(&host, &mut gate, queue, endable, unseen));
        if let Some((_, status, body)) = host.answers.borrow().first() {
            return (passes, *status, body.clone());
        }
        host.clock.update(|now| now + 10);
        let snapshot = gate.evaluate(&host);
        gate.answer_pending_end(&host, &snapshot);
    }
    panic!("no answer after {passes} passes")
}

#[wasm_bindgen_test(unsupported = test)]
fn a_share_is_taken_of_requests_that_are_known_to_wait() {
    let (passes, status, body) = tenth([(7_986, 7_986), (3_000, 2_990), (10, 0)]);
    assert_eq!((passes, status), (3, 202));
    assert!(body.contains("at most 1 of 10 streams"), "{body}");
    assert!(body.contains(r#""matching":10,"ending":1"#), "{body}");
}

#[wasm_bindgen_test(unsupported = test)]
fn requests_that_no_counter_looked_at_in_time_are_not_ended() {
    let (passes, status, body) = tenth(core::iter::repeat((7_986, 7_936)));
    assert!((50..=101).contains(&passes), "{passes}");
    assert_eq!(status, 202);
    assert!(body.contains("at most 5 of at least 50 streams"), "{body}");
    assert!(body.contains("7936 more were not looked at in time"), "{body}");
    let (_, status, body) = tenth(core::iter::repeat((7_986, 7_986)));
    assert_eq!(status, 409, "{body}");
}

/// One of two counters has all streams, and more than it can be ordered to end at once.
#[wasm_bindgen_test(unsupported = test)]
fn a_command_counts_only_the_orders_that_were_sent() {
    let host = Fake::default();
    host.clock.set(40_000);
    let queues = [counter(&host), counter(&host)];
    let mut gate = gate(&host);
    let window = Window { from: 40_000, to: 40_500 };
    let job = CommandJob { window, total: 1_200, ..CommandJob::default() };
    gate.ends.update(&host, &mut |state| state.command = Some(job));
    gate.drive_ends(&host);
    for (queue, endable) in queues.into_iter().zip([1_200, 0]) {
        assert!(reply(&host, &mut gate, queue, endable, 0), "a request");
    }
    host.clock.set(40_500);
    gate.drive_ends(&host);
    let messages = core::iter::from_fn(|| host.dequeue(queues[0]));
    let sent: u64 = messages.filter_map(|text| EndRequest::parse(&text)).map(|end| end.count).sum();
    let ordered = gate.ends.read(&host).command.map(|job| job.progress.ordered);
    assert_eq!((sent, ordered), (MOST_ORDERED, Some(MOST_ORDERED)));
}

#[wasm_bindgen_test(unsupported = test)]
fn a_stop_applies_to_all_known_changes() {
    let host = Fake::default();
    host.clock.set(9_000);
    let queue = counter(&host);
    let end = wire::End { waiting: wire::EndKind::End, ..wire::End::default() };
    let config_change = Some(wire::ConfigChange { drain_ms: 45_000 });
    let policy = Policy::new(wire::Gate { end: Some(end), config_change, ..wire::Gate::default() });
    let mut gate = Gate::new(&host, 1, policy).expect("metrics");
    let observe = |at, draining| {
        ConfigDrain::record(&host, at, Some(draining), 45_000);
    };
    let goes_on = |gate: &mut Gate, now| {
        host.clock.set(now);
        gate.drive_ends(&host);
        let messages = core::iter::from_fn(|| host.dequeue(queue));
        messages.filter_map(|message| EndRequest::parse(&message)).count() > 0
    };
    for (at, draining) in [(10_000, 0), (11_000, 1), (40_000, 1), (41_000, 2)] {
        observe(at, draining);
    }
    assert!(goes_on(&mut gate, 41_500));
    gate.stop_end(&host, 8);
    assert!(host.answers.borrow()[0].2.contains("change of configuration were stopped"));
    for now in [42_000, 54_900, 56_000, 60_000] {
        assert!(!goes_on(&mut gate, now), "at {now}, after the first or the second change");
    }
    observe(61_000, 3);
    assert!(goes_on(&mut gate, 61_500), "a change that came later");
}
