//! N8: a stream of 70 s through a rolling restart of its gateway: with the defaults, and with the
//! profile `streaming`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::inside::EVENTS;
use super::lane::{Task, side_by_side};
use super::pages::{End, read_events};
use super::rolling::create_behind;
use super::service::Service;
use super::workload::{Workload, routes};
use super::world::World;
use crate::load::{HOST, any_of};
use crate::seen::row;
use kit::prelude::*;

const GATEWAY: &str = "gateway";
/// The events of the stream; the app sends one each second.
const COUNT: usize = 70;
/// The time from the first event to the restart.
const BEFORE: Duration = Duration::from_secs(2);
/// The old pod is deleted at once, however long the new one takes to start.
const AT_ONCE: &str =
    r#"{"spec": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}"#;

/// A gateway's policy.
struct Way {
    namespace: &'static str,
    what: &'static str,
    profile: Option<&'static str>,
}

const WAYS: [Way; 2] = [
    Way { namespace: "streams", what: "defaults", profile: None },
    Way { namespace: "streams-profile", what: "`profile: streaming`", profile: Some("streaming") },
];

/// What the client of the stream saw.
struct Seen {
    end: End,
    events: usize,
    took: Duration,
    /// The time from the restart to the end of the old pod.
    gone: Duration,
}

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    let begin = |way| -> Task<Seen> { Box::pin(restart(world, way)) };
    let seen = side_by_side(WAYS.iter().map(begin).collect()).await?;
    for (way, seen) in WAYS.iter().zip(&seen) {
        let what = format!("a stream of {COUNT} s, its gateway restarted, {}", way.what);
        row("N8", what, seen.words());
        world.cluster.run(&["delete", "namespace", way.namespace, "--wait=false"]).await?;
    }
    let [cut, whole] = seen.as_slice() else { bail!("{} ways", seen.len()) };
    ensure!(cut.end == End::Broken, "with the defaults nothing was cut: {}", cut.words());
    ensure!(
        whole.end == End::Complete && whole.events > cut.events,
        "with the profile the stream was cut: {}",
        whole.words()
    );
    Ok(())
}

impl Seen {
    fn words(&self) -> String {
        let end = if self.end == End::Complete { "whole" } else { "cut" };
        format!(
            "{end} after {:.1} s, {} of {COUNT} events; the old pod was gone {:.1} s after the \
             restart",
            self.took.as_secs_f64(),
            self.events,
            self.gone.as_secs_f64()
        )
    }
}

async fn restart(world: &'static World, way: &'static Way) -> Outcome<Seen> {
    let namespace = way.namespace;
    let routes = routes(namespace, GATEWAY, &[(HOST, &format!("app.{namespace}"))]);
    let app = Workload::app(namespace, "app");
    let more = way.profile.map_or_else(|| json!({}), |name| json!({ "profile": name }));
    let gateway = Workload { more, ..Workload::gateway(namespace, GATEWAY) };
    let pods = create_behind(&gateway, &routes, Some(&app), world).await?;
    let old = pods.first().context("a pod")?;
    let deployment = format!("deployment/{GATEWAY}");
    world.cluster.patch(namespace, &deployment, &["--patch", AT_ONCE]).await?;
    let to = any_of(&Service { world, namespace, name: GATEWAY }).await;
    let events = AtomicUsize::new(0);
    let stream = async {
        let begun = Instant::now();
        let request = Request::get(&format!("{EVENTS}/{COUNT}")).host(HOST);
        let client = Client::connect(to).await?;
        let count = || {
            events.fetch_add(1, Ordering::Relaxed);
        };
        let end = read_events(client, request, count).await?;
        Ok::<_, Error>((end, begun.elapsed()))
    };
    let stop = async {
        tokio::time::sleep(BEFORE).await;
        let begun = Instant::now();
        world.restart(namespace, GATEWAY).await?;
        world.pods.gone(namespace, &old.name).await?;
        Ok::<_, Error>(begun.elapsed())
    };
    let (stream, gone) = tokio::join!(stream, stop);
    let (end, took) = stream?;
    Ok(Seen { end, events: events.into_inner(), took, gone: gone? })
}
