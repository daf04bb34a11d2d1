//! Envoy's admin interface is there and cannot be believed: slow, half, foreign, away. That is not
//! the same as an Envoy without its own count: nothing gets out before the deadline.

use std::sync::{Arc, Mutex};

use futures_util::future::try_join_all;

use super::bench::{Bench, SOON, same};
use super::states::kept;
use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases};
use kit::admin_proxy::{AdminFault, AdminProxy, CallHandling};
use kit::locked;
use kit::prelude::*;

cases! {
    a_faulty_admin_interface_opens_nothing,
    an_unknown_cluster_opens_nothing,
}

const DEADLINE: u64 = 20_000;
const SLOW: AdminFault = AdminFault::Slow(Duration::from_millis(2_500));
const AWAY: AdminFault = AdminFault::Unavailable(Duration::ZERO);
/// Faults, and a part of the reason that the status gives.
const FAULTS: [(AdminFault, &str); 5] = [
    (SLOW, "within 2000 ms"),
    (AdminFault::Empty, "is not Envoy's statistics"),
    (AdminFault::Foreign, "is not Envoy's statistics"),
    (AdminFault::Half, "broke off"),
    (AWAY, "answered 503"),
];

/// The limit of a query is ten times as long as that of a call.
fn gate(deadline: u64) -> String {
    format!(
        r#"{{"quiet_ms": 300, "deadline_ms": {deadline}, "begin": {{"call": "nothing"}},
            "admin": {{"timeout_ms": 200}}}}"#
    )
}

/// The fault of the admin interface. Its answer to a POST is always Envoy's own.
type Trouble = Arc<Mutex<Option<AdminFault>>>;

/// An Envoy whose listener `plain` has no filter: only Envoy itself counts its streams.
async fn troubled(lab: &Lab, deadline: u64) -> Outcome<(Bench, Trouble, AdminProxy)> {
    let trouble = Trouble::default();
    let now = Arc::clone(&trouble);
    let judge = move |method: &str, _: &str| {
        let fault = locked(&now).filter(|_| method == "GET");
        fault.map_or(CallHandling::Forward, CallHandling::Fault)
    };
    let plain = Listener::new("plain", routes(Hcm::new("plain"))).direction("INBOUND");
    let bootstrap = Bootstrap::new().listener(plain);
    let (bench, proxy) =
        Bench::proxied(bootstrap, lab, &gate(deadline), hcm(lab, "{}"), judge).await?;
    bench.until("count", "exact").await?;
    Ok((bench, trouble, proxy))
}

async fn a_faulty_admin_interface_opens_nothing(lab: &Lab) -> Outcome {
    let each = FAULTS.map(async |(fault, words)| {
        let (bench, trouble, _proxy) = troubled(lab, DEADLINE).await?;
        *locked(&trouble) = Some(fault);
        let mut client = bench.held_at("plain", "a").await?;
        opens_nothing(&bench, words).await.with_context(|| format!("{fault:?}"))?;
        bench.release("a", &mut client).await
    });
    try_join_all(each).await.map(drop)
}

async fn an_unknown_cluster_opens_nothing(lab: &Lab) -> Outcome {
    let gate = gate(DEADLINE).replace("\"timeout_ms\"", "\"cluster\": \"nowhere\", \"timeout_ms\"");
    let bench = Bench::set(lab, &gate).await?;
    opens_nothing(&bench, "Envoy has no cluster `nowhere`").await
}

/// No quit signal passes, and a hook is held until the deadline. Reason and advice name the
/// cluster, and not the annotation for an Envoy that does not export its own count.
async fn opens_nothing(bench: &Bench, words: &str) -> Outcome {
    bench.post("/quitquitquit").await?.expect(503)?;
    let hook = bench.hook();
    wait_for(SOON, &format!("a reason with `{words}`"), async || {
        let status = bench.status().await?;
        ensure!(!status.to_string().contains("statsInclusionSuffixes"), "{status}");
        for field in ["reason", "advice"] {
            let text = status[field].as_str().unwrap_or_default();
            ensure!(text.contains("cluster `") && text.contains(words), "{field}: {status}");
        }
        Ok(())
    })
    .await?;
    same(&hook.await??.expect(200)?.json()?, "state", "expired")?;
    kept(bench, DEADLINE).await
}
