//! N7: a rolling restart of a gateway with WebSockets and event streams, whose clients reconnect as
//! pages in browsers do: with ends that are spread, with all ends at once, and without the section
//! `end`.

use std::sync::atomic::Ordering;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::{Instant, sleep};

use super::lane::{Task, side_by_side};
use super::pages::{CHAT, End, Kind, Page, Pages};
use super::rolling::create_behind;
use super::service::Service;
use super::workload::{Workload, routes};
use super::world::World;
use crate::load::{HOST, Load, SHORT};
use crate::seen::row;
use kit::prelude::*;

const GATEWAY: &str = "gateway";
/// 200 WebSockets and 200 event streams.
const PAGES: [(Kind, usize); 4] =
    [(Kind::Talking, 150), (Kind::Silent, 25), (Kind::Elsewhere, 25), (Kind::EventStream, 200)];
/// The route of [`CHAT`], which has the frame filter.
const ROUTE: &str = "chat";
/// The age from which the gate ends streams; it leaves younger ones alone.
const OLD: Duration = Duration::from_secs(3);
const SECOND: Duration = Duration::from_secs(1);
/// The ends are spread over 16 s, so the reconnects are, too.
const SPREAD: Duration = Duration::from_secs(10);
/// The least share of 1001 among the WebSockets with traffic. A busy machine may be too late for
/// some.
const LEAST_CLOSED: f64 = 0.8;

/// A way in which the gateway ends its streams.
struct Way {
    namespace: &'static str,
    what: &'static str,
    over: Option<&'static str>,
}

const WAYS: [Way; 3] = [
    Way { namespace: "ends-spread", what: "`end: {over: 20s}`", over: Some("20s") },
    Way { namespace: "ends-at-once", what: "`end: {over: 1s}`", over: Some("1s") },
    Way { namespace: "ends-by-envoy", what: "no section `end`", over: None },
];

/// The observations of a way.
struct Seen {
    way: &'static Way,
    pages: Vec<Page>,
    /// The times at which clients reconnected, from the restart on, sorted.
    returns: Vec<Duration>,
    requests: usize,
    lost: usize,
    first_lost: String,
}

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::alone().await?;
    allow_many_files()?;
    let begin = |way| -> Task<Seen> { Box::pin(restart(world, way)) };
    let seen = side_by_side(WAYS.iter().map(begin).collect()).await?;
    seen.iter().for_each(Seen::add_rows);
    for way in &WAYS {
        world.cluster.run(&["delete", "namespace", way.namespace, "--wait=false"]).await?;
    }
    judge(&seen)
}

/// Raises the limit of open files, because a connection is one and many systems allow a process
/// 1,024 by default.
fn allow_many_files() -> Outcome {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).context("open files")
}

/// The gateway of a way. Ends begin at the same moment with and without spread.
fn gateway(world: &World, way: &Way) -> Workload<'static> {
    let sections = |over| {
        json!({
            "end": {
                "websocket": "end", "event_stream": "end", "over": over, "before_deadline": "20s",
            },
            "websockets": { "module": world.frames, "routes": [{ "name": ROUTE }] },
        })
    };
    let more = way.over.map_or_else(|| json!({}), sections);
    Workload { more, ..Workload::gateway(way.namespace, GATEWAY) }
}

/// The gateway's listener, and a separate route for the chat.
fn objects(namespace: &str) -> Vec<Value> {
    let mut objects = routes(namespace, GATEWAY, &[(HOST, &format!("app.{namespace}"))]);
    for object in objects.iter_mut().filter(|object| object["kind"] == "VirtualService") {
        let rest = object["spec"]["http"][0].clone();
        let mut chat = rest.clone();
        chat["name"] = ROUTE.into();
        chat["match"] = json!([{ "uri": { "prefix": CHAT } }]);
        object["spec"]["http"] = json!([chat, rest]);
    }
    objects
}

/// Restarts a gateway that has its own app and pages.
async fn restart(world: &'static World, way: &'static Way) -> Outcome<Seen> {
    let namespace = way.namespace;
    let app = Workload::app(namespace, "app");
    let gateway = gateway(world, way);
    let pods = create_behind(&gateway, &objects(namespace), Some(&app), world).await?;
    let old = pods.first().context("a pod")?;
    let service = Service { world, namespace, name: GATEWAY };
    let load = Load::start(service, &SHORT);
    let pages = Pages::open(service, &PAGES).await?;
    sleep(OLD).await;
    let began = Instant::now();
    world.restart(namespace, GATEWAY).await?;
    world.pods.gone(namespace, &old.name).await?;
    pages.all_back().await.with_context(|| way.what.to_owned())?;
    sleep(OLD).await; // the new connections must stay open
    let pages = pages.now();
    let tally = load.finish().await?;
    let moments = pages.iter().flat_map(|page| &page.returns);
    let mut returns: Vec<_> = moments.map(|at| at.saturating_duration_since(began)).collect();
    returns.sort_unstable();
    let (requests, lost) = (tally.requests.load(Ordering::Relaxed), tally.failures());
    Ok(Seen { way, pages, returns, requests, lost, first_lost: tally.first_failures(20) })
}

impl Seen {
    /// The most reconnects within any interval of a second.
    fn busiest(&self) -> usize {
        let within = |from: &Duration| {
            self.returns.iter().filter(|at| (*from..*from + SECOND).contains(*at)).count()
        };
        self.returns.iter().map(within).max().unwrap_or_default()
    }

    /// The time from the first reconnect to the last.
    fn span(&self) -> Duration {
        let (first, last) = (self.returns.first(), self.returns.last());
        last.zip(first).map(|(last, first)| *last - *first).unwrap_or_default()
    }

    /// The number of reconnects in each second from the first one on.
    fn each_second(&self) -> Vec<usize> {
        let first = self.returns.first().copied().unwrap_or_default();
        let mut counts = vec![0; self.span().as_secs() as usize + 1];
        for at in &self.returns {
            counts[(*at - first).as_secs() as usize] += 1;
        }
        counts
    }

    fn count(&self, kind: Kind, end: End) -> usize {
        let is_one = |page: &&Page| page.kind == kind && page.ends.contains(&end);
        self.pages.iter().filter(is_one).count()
    }

    fn add_rows(&self) {
        let what = self.way.what;
        let counts: Vec<_> = self.each_second().iter().map(usize::to_string).collect();
        let reconnects = format!(
            "{} reconnects in {:.1} s, at most {} within a second; in each second: {}",
            self.returns.len(),
            self.span().as_secs_f64(),
            self.busiest(),
            counts.join(" ")
        );
        row("N7", format!("200 WebSockets and 200 event streams, {what}"), reconnects);
        let closed = |kind| {
            let all = self.pages.iter().filter(|page| page.kind == kind).count();
            format!("{} of {all}", self.count(kind, End::Closed(1001)))
        };
        let ends = format!(
            "1001: {} with traffic on the route of the frame filter, {} silent there, {} on \
             another route; the others 1006; event streams without a last chunk: {}",
            closed(Kind::Talking),
            closed(Kind::Silent),
            closed(Kind::Elsewhere),
            self.count(Kind::EventStream, End::Broken)
        );
        row("N7", format!("how these ended, {what}"), ends);
        let beside = format!("{} requests of 20 ms: {} lost", self.requests, self.lost);
        row("N7", format!("beside them, {what}"), beside);
        say(&self.first_lost);
    }

    /// Checks that each stream ended once and its client reconnected, and that no request was lost.
    fn expect_all_back(&self) -> Outcome {
        let what = self.way.what;
        for page in &self.pages {
            ensure!(page.failures.is_empty(), "{what}: a connection failed: {page:?}");
            ensure!(page.is_open && page.ends.len() == 1, "{what}: not back once: {page:?}");
        }
        ensure!(self.requests > self.pages.len(), "{what}: {} requests", self.requests);
        ensure_eq!(self.lost, 0, "{what}: requests lost, the first:\n{}\n", self.first_lost);
        Ok(())
    }

    /// Checks that close frames came only on the route with the frame filter.
    fn expect_codes(&self) -> Outcome {
        let closed = |kind| self.count(kind, End::Closed(1001));
        let all = self.pages.iter().filter(|page| page.kind == Kind::Talking).count();
        let least = if self.way.over.is_some() { all as f64 * LEAST_CLOSED } else { 0.0 };
        let talking = closed(Kind::Talking);
        ensure!(talking as f64 >= least, "{}: 1001 for {talking} of {all}", self.way.what);
        ensure!(talking == 0 || self.way.over.is_some(), "1001 without a frame filter");
        ensure_eq!(closed(Kind::Silent), 0, "1001 where no callback comes");
        ensure_eq!(closed(Kind::Elsewhere), 0, "1001 on a route without the frame filter");
        let is_known = |end: &End| matches!(end, End::Broken | End::Closed(1001));
        let odd = self.pages.iter().find(|page| !page.ends.iter().all(is_known));
        ensure!(odd.is_none(), "another end than 1001, 1006 and a broken event stream: {odd:?}");
        Ok(())
    }
}

fn judge(seen: &[Seen]) -> Outcome {
    for seen in seen {
        seen.expect_all_back()?;
        seen.expect_codes()?;
    }
    let [spread, at_once, by_envoy] = seen else { bail!("{} ways", seen.len()) };
    ensure!(spread.span() > SPREAD, "{:?} from the first reconnect to the last", spread.span());
    for other in [at_once, by_envoy] {
        let (least, most) = (spread.busiest(), other.busiest());
        ensure!(least * 2 < most, "{least} within a second, and {most} with {}", other.way.what);
    }
    Ok(())
}
