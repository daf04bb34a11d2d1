//! Thousands of operations of every kind over both workers: afterwards every gauge is zero, and no
//! stream was missed.

use crate::cases::stage::{BEGUN, IN_FLIGHT, LONG_LIVED, SOON};
use crate::lab::{Lab, cases};
use kit::bootstrap::extension;
use kit::certificates::Authority;
use kit::load::{self, bed};
use kit::prelude::*;

cases! {
    every_kind_of_stream_is_counted,
}

const OPERATIONS: usize = 6_000;
const PARALLEL: usize = 16;
const SEED: u64 = 11;
const LISTENERS: [&str; 2] = ["load", "load-quic"];

/// Streams are classified, and the scheme is restored, written and protected from twins.
const POLICY: &str = r#"{
    "count": {"long_lived": {"upgrades": true, "grpc": true}},
    "forwarded_proto": {
        "trust": {"peers": ["127.0.0.0/8"]}, "presets": ["aws_alb"], "write_scheme": true,
        "strip": {"twins": true}
    }
}"#;

async fn every_kind_of_stream_is_counted(lab: &Lab) -> Outcome {
    let authority = Authority::new()?;
    let upstream = Upstream::start().await?;
    let hcm = |prefix: &str| {
        bed::routes(
            Hcm::new(prefix)
                .filter(filters::direct_peer())
                .filter(lab.stream(POLICY).filter())
                .filter(witness(prefix)),
        )
    };
    let [tcp, quic] = LISTENERS.map(hcm);
    let bootstrap = bed::bootstrap(&upstream, tcp, quic, &authority)?.build();
    let envoy = Envoy::start(&lab.envoy, bootstrap, Options::default()).await?;
    let targets = bed::targets(&envoy, &authority).await?;
    tokio::select! {
        ran = load::run(OPERATIONS, PARALLEL, SEED, targets) => ran?,
        outcome = watch(&envoy) => return outcome,
    }
    wait_for(SOON, "every stream to be gone", async || gone(&envoy).await).await?;
    missed_none(&envoy).await
}

/// A native filter behind the module that counts the requests that pass the module.
fn witness(prefix: &str) -> serde_json::Value {
    let any = json!({ "permissions": [{ "any": true }], "principals": [{ "any": true }] });
    let rules = json!({ "action": "ALLOW", "policies": { "any": any } });
    extension(
        "witness",
        "envoy.extensions.filters.http.rbac.v3.RBAC",
        json!({ "rules": rules, "rules_stat_prefix": format!("{prefix}_") }),
    )
}

/// Returns only an error: a gauge above the possible number of streams. A gauge that was
/// decremented too often wraps around, so it is above that number, too.
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
        stats
            .iter()
            .filter(|(name, _)| name.starts_with("http.load") && name.ends_with(end))
            .map(|(_, value)| value)
            .sum::<u64>()
    };
    let begun = stats.get(BEGUN).copied().unwrap_or_default();
    ensure_eq!(
        begun,
        sum(".allowed"),
        "begun, by the module and by the filter behind it: {stats:#?}"
    );
    let all = sum(".downstream_rq_total");
    ensure!(begun > OPERATIONS as u64 && begun <= all, "{begun} begun of {all} that Envoy saw");
    let verdicts: u64 = stats
        .iter()
        .filter(|(name, _)| name.contains("laststream_forwarded_proto_"))
        .map(|(_, value)| value)
        .sum();
    ensure_eq!(verdicts, begun, "verdicts on x-forwarded-proto");
    Ok(())
}
