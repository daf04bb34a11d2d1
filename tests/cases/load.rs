//! Twenty thousand operations of every kind over both workers: afterwards nothing is counted that is not there, and nothing was missed.

use std::time::Duration;

use serde_json::json;

use crate::cases::stage::{BEGUN, IN_FLIGHT, LONG_LIVED};
use crate::lab::{Case, Lab, case};
use crate::support::bootstrap::{Hcm, extension, filters};
use crate::support::certificates::Authority;
use crate::support::envoy::{Envoy, Options};
use crate::support::failure::{Outcome, ensure, ensure_eq};
use crate::support::load::{self, bed};
use crate::support::trial::wait_for;
use crate::support::upstream::Upstream;

pub(crate) fn cases() -> Vec<Case> {
    vec![case!(counts_every_kind_of_stream, 300)]
}

const OPERATIONS: usize = 20_000;
const PARALLEL: usize = 16;
const SEED: u64 = 11;
const LISTENERS: [&str; 2] = ["load", "load-quic"];

/// All that the module can do for a stream is on.
const POLICY: &str = r#"{
    "count": {"long_lived": {"upgrades": true, "grpc": true}},
    "forwarded_proto": {"trust": {"peers": ["127.0.0.0/8"]}, "presets": ["aws_alb"], "write_scheme": true, "strip": {"twins": true}}
}"#;

async fn counts_every_kind_of_stream(lab: &Lab) -> Outcome {
    let authority = Authority::new()?;
    let upstream = Upstream::start().await?;
    let hcm = |prefix: &str| {
        let hcm = Hcm::new(prefix).filter(filters::direct_peer()).filter(lab.stream(POLICY).filter()).filter(witness(prefix));
        bed::routes(hcm)
    };
    let [tcp, quic] = LISTENERS.map(hcm);
    let envoy = Envoy::start(&lab.envoy, bed::bootstrap(&upstream, tcp, quic, &authority)?.build(), Options::default()).await?;
    let watched = watch(&envoy);
    let targets = bed::targets(&envoy, &authority).await?;
    let report = tokio::select! {
        report = load::run(OPERATIONS, PARALLEL, SEED, targets) => report,
        outcome = watched => return outcome,
    };
    report.check()?;
    ensure!(report.operations >= OPERATIONS as u64, "{} operations", report.operations);
    wait_for(Duration::from_secs(30), "every stream to be gone", async || gone(&envoy).await).await?;
    missed_none(&envoy).await
}

/// A native filter behind the module that counts the requests that come by.
fn witness(prefix: &str) -> serde_json::Value {
    let anybody = json!({ "permissions": [{ "any": true }], "principals": [{ "any": true }] });
    let rules = json!({ "action": "ALLOW", "policies": { "anybody": anybody } });
    extension("witness", "envoy.extensions.filters.http.rbac.v3.RBAC", json!({ "rules": rules, "rules_stat_prefix": format!("{prefix}_") }))
}

/// Ends only when something is wrong: a count that is more than there can be, which is what one too few looks like, too.
async fn watch(envoy: &Envoy) -> Outcome {
    loop {
        for gauge in [IN_FLIGHT, LONG_LIVED] {
            let count = envoy.stat(gauge).await?.unwrap_or_default();
            ensure!(count < 10_000, "{gauge} is {count}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn gone(envoy: &Envoy) -> Outcome {
    let stats = envoy.stats().await?;
    let names = LISTENERS.map(|listener| format!("http.{listener}.downstream_rq_active"));
    for gauge in names.iter().map(String::as_str).chain([IN_FLIGHT, LONG_LIVED]) {
        ensure_eq!(stats.get(gauge), Some(&0), "{gauge}");
    }
    Ok(())
}

async fn missed_none(envoy: &Envoy) -> Outcome {
    let stats = envoy.stats().await?;
    let sum = |end: &str| {
        stats.iter().filter(|(name, _)| name.starts_with("http.load") && name.ends_with(end)).map(|(_, value)| value).sum::<u64>()
    };
    let begun = stats.get(BEGUN).copied().unwrap_or_default();
    ensure_eq!(begun, sum(".allowed"), "begun, by the module and by the filter behind it: {stats:#?}");
    let all = sum(".downstream_rq_total");
    ensure!(begun > OPERATIONS as u64 && begun <= all, "{begun} begun of {all} that Envoy saw");
    let verdicts: u64 = stats.iter().filter(|(name, _)| name.contains("laststream_forwarded_proto_")).map(|(_, value)| value).sum();
    ensure_eq!(verdicts, begun, "verdicts on x-forwarded-proto");
    Ok(())
}
