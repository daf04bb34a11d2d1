//! Envoy accepts and obeys the options of the configuration builders.

use std::path::Path;

use crate::cases::stage::SOON;
use crate::lab::Lab;
use kit::bootstrap::filters::{self, Wasm};
use kit::bootstrap::only_stats_with_prefixes;
use kit::certificates::Authority;
use kit::prelude::*;
use kit::wire::local;

pub(super) async fn builds_what_envoy_accepts(lab: &Lab) -> Outcome {
    let server = Authority::new()?.server()?;
    let hcm = Hcm::new("main")
        .upgrades_with(&[filters::direct_peer()])
        .append_x_forwarded_port()
        .codec("HTTP1")
        .stream_idle_timeout("0s")
        .require_tls("EXTERNAL_ONLY")
        .route(
            Route::path("/exact")
                .name("exact")
                .header("x-forwarded-proto", "https")
                .cluster("app")
                .idle_timeout("1s"),
        )
        .route(
            Route::prefix("/off")
                .direct(200, "")
                .without_filter("envoy.filters.http.set_filter_state"),
        )
        .route(Route::prefix("/").path_redirect("/exact"));
    let config = Bootstrap::new()
        .cluster(cluster::with(cluster::h2("app", local(1)), "/connect_timeout", json!("1s")))
        .listener(Listener::new("tls", hcm).tls(&server).direction("INBOUND").buffer_limit(1024))
        .listener(Listener::tcp("tcp", "app").direction("OUTBOUND"))
        .node_metadata(json!({ "POD": "a" }))
        .runtime(json!({ "a.key": 1 }));
    let verdict = Envoy::validate(&lab.envoy, config.build()).await?;
    ensure!(verdict.status.success(), "{}", verdict.output);
    for failure_policy in ["FAIL_RELOAD", "FAIL_CLOSED", "FAIL_OPEN"] {
        misses_its_module(lab, failure_policy).await?;
    }
    Ok(())
}

async fn misses_its_module(lab: &Lab, failure_policy: &'static str) -> Outcome {
    const MISSING: &str = "/no/such/module.wasm";
    let wasm = Wasm {
        name: "laststream",
        module: Path::new(MISSING),
        vm_id: "streams",
        vm_configuration: "{}",
        configuration: "{}",
        failure_policy,
    };
    let hcm = Hcm::new("main").filter(wasm.filter());
    let config = Bootstrap::new().listener(Listener::new("main", hcm));
    let output = Envoy::validate(&lab.envoy, config.build()).await?.output;
    ensure!(output.contains(MISSING), "not about the module: {output}");
    Ok(())
}

pub(super) async fn obeys_the_options(lab: &Lab) -> Outcome {
    let (upstream, folder) = (Upstream::start().await?, tempfile::tempdir()?);
    let file = folder.path().join("access.log");
    let saved = json!({ "key": "x-saved", "value": "%REQ(x-forwarded-proto)%" });
    let hcm = Hcm::new("main")
        .use_remote_address(true, 0)
        .early_mutations(json!([{ "remove": "x-saved" }, { "append": { "header": saved } }]))
        .access_log(&file, "%REQ(:PATH)% %RESPONSE_CODE%")
        .route(Route::prefix("/").cluster("app"));
    let config = Bootstrap::new()
        .cluster(cluster::h1("app", upstream.h1()))
        .listener(Listener::new("main", hcm));
    let config = config.stats_matcher(only_stats_with_prefixes(&["http.main."])).build();
    let options = Options { drain_time_s: Some(3), log_level: "warn".into(), ..Options::default() };
    let envoy = Envoy::start(&lab.envoy, config, options).await?;
    let address = envoy.address("main").await?;
    let request = Request::get("/echo")
        .header("x-forwarded-proto", "https")
        .header("X-Saved", "forged")
        .header("x-bytes", b"\xff\xfe");
    once(address, &request).await?.expect(200)?;
    let seen = upstream.last()?;
    ensure_eq!(seen.headers.all("x-saved"), ["https"], "the header saved early");
    ensure_eq!(seen.header("x-forwarded-proto"), Some("http".into()), "what Envoy made of it");
    ensure!(
        seen.headers.0.contains(&("x-bytes".into(), b"\xff\xfe".to_vec())),
        "{:?}",
        seen.headers
    );
    ensure_eq!(envoy.stat("http.main.downstream_rq_total").await?, Some(1), "an included counter");
    ensure_eq!(envoy.stat("cluster.app.upstream_rq_total").await?, None, "an excluded counter");
    drains(&envoy, Client::connect(address).await?).await?;
    let line = async || {
        std::fs::read_to_string(&file)?.contains("/echo 200").then_some(()).context("no such line")
    };
    wait_for(SOON, "the access log", line).await
}

/// After `healthcheck/fail`, Envoy's next answer has `connection: close`.
async fn drains(envoy: &Envoy, mut client: Client) -> Outcome {
    envoy.admin_post("/healthcheck/fail").await?.expect(200)?;
    let answer = client.get("/echo").await?.expect(200)?;
    ensure_eq!(answer.header("connection"), Some("close".into()), "connection");
    Ok(())
}
