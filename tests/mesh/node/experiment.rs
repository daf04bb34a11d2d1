//! N1: the experiment of `laststream demo`: a request of 10 s or longer, its pod deleted after 1 s;
//! with nothing, with Istio's own means, with the rendered hook, and with a gate that needs none.

use super::lane::{Lane, OUTLASTS_ALL, Seen, long_grace, side_by_side, task};
use super::workload::{AGENT, HOOK, Proxy, SIDECAR, Workload, routes, sidecars};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;

const REQUEST: Duration = Duration::from_secs(10);
/// The grace period of the pod that ends only when it is over. With 40 s its idle connection was
/// once gone before.
const SHORT_GRACE: u32 = 30;

/// The namespaces without laststream and with the rendered hook.
const BARE: &str = "bare";
const KEPT: &str = "kept";

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    let front = prepare(world).await?;
    let seen =
        side_by_side(lanes(front).into_iter().map(|lane| task(world, lane)).collect()).await?;
    seen.iter().for_each(|seen| row("N1", seen.what, seen.words()));
    judge(&seen)?;
    let failed = ["get", "events", "--field-selector", "reason=FailedPreStopHook"];
    let failed = world.cluster.run(&[&failed[..], &["--output=name", "-n", KEPT]].concat()).await?;
    ensure!(failed.is_empty(), "{failed}");
    Ok(())
}

/// Namespaces, routes, and the gateway in front of the apps.
async fn prepare(world: &World) -> Outcome<SocketAddr> {
    for namespace in [BARE, KEPT] {
        world.cluster.injected_namespace(namespace).await?;
        world.cluster.apply_all(&[sidecars(namespace)]).await?;
    }
    let front = Workload { drain: None, ..Workload::gateway(BARE, "front") };
    front.create(world).await?;
    let hosts = [
        ("c.bare", "classic.bare"),
        ("n.bare", "native.bare"),
        ("c.kept", "classic.kept"),
        ("n.kept", "native.kept"),
        ("a.kept", "classic-agent.kept"),
    ];
    let mut objects = routes(BARE, "front", &hosts);
    for (namespace, gateway) in [
        (BARE, "gateway"),
        (BARE, "zero"),
        (KEPT, "gateway"),
        (KEPT, "gateway-agent"),
        (KEPT, "idle-agent"),
    ] {
        objects.extend(routes(namespace, gateway, &[("kept.test", "backend.default")]));
    }
    world.cluster.apply_all(&objects).await?;
    Ok(front.pod(world).await?.listener())
}

fn lanes(front: SocketAddr) -> Vec<Lane> {
    use Proxy::{Classic, Gateway, Native};

    let lane =
        |what, namespace: &'static str, name: &'static str, proxy, host: Option<&'static str>| {
            Lane {
                what,
                workload: Workload {
                    proxy,
                    drain: (namespace == KEPT).then(long_grace),
                    starts: if name.ends_with(AGENT) { AGENT } else { HOOK },
                    ..Workload::app(namespace, name)
                },
                request: REQUEST,
                idle_connection: proxy == Gateway,
                through: host.map(|host| (front, host)),
                ..Lane::default()
            }
        };
    let lost = |lane: Lane| Lane { request: OUTLASTS_ALL, ..lane };
    let what = "a gateway with EXIT_ON_ZERO and an idle connection";
    let mut zero = lane(what, BARE, "zero", Gateway, None);
    zero.workload.grace = SHORT_GRACE;
    zero.workload.annotations = json!({
        "proxy.istio.io/config": r#"{
            "proxyMetadata": {
                "EXIT_ON_ZERO_ACTIVE_CONNECTIONS": "true", "MINIMUM_DRAIN_DURATION": "5s"
            }
        }"#
    });
    let what = "a classic sidecar, no hook, it also waits for the app";
    let mut classic = lane(what, KEPT, "classic-agent", Classic, Some("a.kept"));
    let mut drain = long_grace();
    drain["wait_for_app"] = json!({ "cluster": format!("inbound|{SIDECAR}||") });
    classic.workload.drain = Some(drain);
    let what = "a gateway whose last request ends at the deletion, no hook";
    let mut idle = lane(what, KEPT, "idle-agent", Gateway, None);
    idle.request = Duration::from_secs(1);
    vec![
        lost(lane("a classic sidecar, nothing", BARE, "classic", Classic, Some("c.bare"))),
        lane("a classic sidecar, the rendered hook", KEPT, "classic", Classic, Some("c.kept")),
        lane("a native sidecar, Istio's own hook", BARE, "native", Native, Some("n.bare")),
        lane("a native sidecar, the rendered hook", KEPT, "native", Native, Some("n.kept")),
        lost(lane("a gateway with an idle connection, nothing", BARE, "gateway", Gateway, None)),
        lane(
            "a gateway with an idle connection, the rendered hook",
            KEPT,
            "gateway",
            Gateway,
            None,
        ),
        zero,
        classic,
        lane("a gateway with an idle connection, no hook", KEPT, "gateway-agent", Gateway, None),
        idle,
    ]
}

/// More than a stop takes on a busy machine where nothing is in flight.
const SOON: Duration = Duration::from_secs(20);

/// A little before the app answers, 9 s after the deletion: the request lasts 10 s, and the pod is
/// deleted 1 s after its beginning.
const APP_HAS_ENDED: Duration = Duration::from_millis(8_500);

fn judge(seen: &[Seen]) -> Outcome {
    let [
        classic,
        classic_kept,
        native,
        native_kept,
        gateway,
        gateway_kept,
        zero,
        classic_agent,
        gateway_agent,
        idle,
    ] = seen
    else {
        bail!("{} lanes", seen.len())
    };
    classic.expect_lost()?;
    gateway.expect_lost()?;
    for kept in [classic_kept, native_kept, gateway_kept] {
        kept.expect_kept()?;
    }
    for kept in [classic_agent, gateway_agent, idle] {
        kept.expect_kept()?;
        kept.expect(kept.exit == Some(0), "the agent ends after Envoy")?;
    }
    idle.expect(idle.gone < SOON, "nothing was in flight")?;
    // Without the gate, nothing keeps Envoy until it has passed the app's last answer on. On a busy
    // machine it once ended too early.
    let app_has_ended = native.answered >= APP_HAS_ENDED;
    native.expect(app_has_ended, "kubelet keeps a native sidecar for its app")?;
    zero.expect(!zero.is_lost(), "EXIT_ON_ZERO waits")?;
    let is_held = zero.gone >= Duration::from_secs(SHORT_GRACE.into());
    zero.expect(is_held, "an idle connection holds EXIT_ON_ZERO for the grace period")
}
