//! Thousands of operations of every kind over both workers: afterwards every gauge is zero, and no
//! stream was missed.

use std::cell::Cell;

use crate::cases::stage::{BEGUN, IN_FLIGHT, LONG_LIVED, SOON};
use crate::lab::{Lab, MODULE, cases, module_before_the_drain_crate};
use kit::bootstrap::extension;
use kit::bootstrap::filters::Wasm;
use kit::certificates::Authority;
use kit::load::{self, bed};
use kit::prelude::*;
use kit::xds::{Verdict, Xds};

cases! {
    every_kind_of_stream_is_counted,
    streams_are_counted_through_upgrades_from_an_earlier_module,
}

const OPERATIONS: usize = 20_000;
/// The number in the case that replaces the module meanwhile.
const OPERATIONS_OF_AN_UPGRADE: usize = 6_000;
/// The number of upgrades, each followed by a downgrade.
const UPGRADES: usize = 3;
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
    counts(lab, &lab.stream(POLICY).filter(), OPERATIONS, async |_| Ok(())).await
}

/// Each module counts its own streams until they end, whichever module counts new ones.
async fn streams_are_counted_through_upgrades_from_an_earlier_module(lab: &Lab) -> Outcome {
    let earlier = module_before_the_drain_crate()?;
    let xds = Xds::new()?;
    let now = lab.stream(POLICY);
    let before = Wasm { module: &earlier.path().join(MODULE), ..now.clone() };
    xds.write_filter("laststream", &before.typed_config())?;
    let upgrade = async |envoy: &Envoy| {
        for round in 1..=UPGRADES {
            for (module, direction) in [(&now, "upgrade"), (&before, "downgrade")] {
                tokio::time::sleep(Duration::from_millis(300)).await;
                let verdict =
                    xds.replace_filter(envoy, "laststream", &module.typed_config()).await?;
                ensure_eq!(verdict, Verdict::Accepted, "{direction} {round}");
            }
        }
        Ok(())
    };
    counts(lab, &filters::discovered("laststream", &xds), OPERATIONS_OF_AN_UPGRADE, upgrade).await
}

/// Runs this number of operations through the filter, and `meanwhile`, which must end first.
async fn counts(
    lab: &Lab,
    filter: &Value,
    operations: usize,
    meanwhile: impl AsyncFnOnce(&Envoy) -> Outcome,
) -> Outcome {
    let authority = Authority::new()?;
    let upstream = Upstream::start().await?;
    let hcm = |prefix: &str| {
        bed::routes(
            Hcm::new(prefix)
                .filter(filters::direct_peer())
                .filter(filter.clone())
                .filter(witness(prefix)),
        )
    };
    let [tcp, quic] = LISTENERS.map(hcm);
    let envoy = Envoy::start(
        &lab.envoy,
        bed::bootstrap(&upstream, tcp, quic, &authority)?.build(),
        Options::default(),
    )
    .await?;
    let targets = bed::targets(&envoy, &authority).await?;
    let has_ended = Cell::new(false);
    let meanwhile = async {
        meanwhile(&envoy).await?;
        has_ended.set(true);
        watch(&envoy).await
    };
    let report = tokio::select! {
        report = load::run(operations, PARALLEL, SEED, targets) => report,
        outcome = meanwhile => return outcome,
    };
    report.check()?;
    ensure!(has_ended.get(), "the load ended first: {report}");
    ensure!(report.operations >= operations as u64, "{} operations", report.operations);
    wait_for(SOON, "every stream to be gone", async || gone(&envoy).await).await?;
    missed_none(&envoy, operations).await
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

async fn missed_none(envoy: &Envoy, operations: usize) -> Outcome {
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
    ensure!(begun > operations as u64 && begun <= all, "{begun} begun of {all} that Envoy saw");
    let verdicts: u64 = stats
        .iter()
        .filter(|(name, _)| name.contains("laststream_forwarded_proto_"))
        .map(|(_, value)| value)
        .sum();
    ensure_eq!(verdicts, begun, "verdicts on x-forwarded-proto");
    Ok(())
}
