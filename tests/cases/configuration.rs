//! An invalid configuration is refused, with the reason in Envoy's log; so is a valid one that
//! cannot work in this Envoy.

use crate::cases::stage::{BEGUN, clusters, hcm};
use crate::lab::{Lab, cases};
use kit::bootstrap::only_stats_with_prefixes;
use kit::prelude::*;

cases! {
    a_bad_configuration_stops_the_start,
    metrics_that_the_stats_matcher_rejects_are_refused,
    the_error_for_a_struct_names_the_fix,
}

/// Invalid configurations, and the log's words about each: the path of the error, and the fix.
const BAD: [(&str, &str); 3] = [
    (
        r#"{"scope": "gatway"}"#,
        "configuration refused: scope: `gatway` is not known; did you mean `gateway`?",
    ),
    ("{", "configuration refused: line 1, column 1: not JSON: EOF while parsing an object"),
    (
        r#"{"count": {"exclude": {"paths": [{"exact": "x"}]}}, "forwarded_proto": {"trust": {}}}"#,
        "count.exclude.paths[0]: `x` never matches: a path begins with `/`; \
            forwarded_proto.sources: names no header",
    ),
];

async fn a_bad_configuration_stops_the_start(lab: &Lab) -> Outcome {
    for (text, complaint) in BAD {
        let main = Listener::new("main", Hcm::new("main").filter(lab.stream(text).filter()));
        refuses_to_start(lab, Bootstrap::new().listener(main), &[complaint]).await?;
    }
    Ok(())
}

/// Envoy does not start with this bootstrap, and its log contains the words.
async fn refuses_to_start(lab: &Lab, bootstrap: Bootstrap, words: &[&str]) -> Outcome {
    let started = Envoy::start(&lab.envoy, bootstrap.build(), Options::default()).await;
    let failure = started.err().with_context(|| format!("Envoy started, without {words:?}"))?;
    let failure = format!("{failure:#}");
    ensure!(words.iter().all(|words| failure.contains(words)), "{words:?} in {failure}");
    Ok(())
}

/// For rejected metrics, Envoy returns gauges that stay zero: without the check the module would
/// never see a stream in flight.
async fn metrics_that_the_stats_matcher_rejects_are_refused(lab: &Lab) -> Outcome {
    let rejecting = only_stats_with_prefixes(&["http.", "listener", "server", "cluster"]);
    let upstream = Upstream::start().await?;
    let bootstrap =
        || clusters(Bootstrap::new(), &upstream).listener(Listener::new("main", hcm(lab, "{}")));
    let words = [
        "rejects `wasmcustom.laststream_streams_in_flight_gateway`",
        "statsInclusionPrefixes: wasmcustom.laststream_",
    ];
    refuses_to_start(lab, bootstrap().stats_matcher(rejecting), &words).await?;
    // The fix that the message names works.
    let mended = only_stats_with_prefixes(&[
        "http.",
        "listener",
        "server",
        "cluster",
        "wasmcustom.laststream_",
    ]);
    let config = bootstrap().stats_matcher(mended).build();
    let envoy = Envoy::start(&lab.envoy, config, Options::default()).await?;
    once(envoy.address("main").await?, &Request::get("/echo")).await?.expect(200)?;
    ensure_eq!(envoy.stat(BEGUN).await?, Some(1), "begun");
    Ok(())
}

/// Envoy passes a Struct in protobuf's encoding; the module's error names the fix.
async fn the_error_for_a_struct_names_the_fix(lab: &Lab) -> Outcome {
    let mut filter = lab.stream("").filter();
    let value = json!({ "scope": "inbound", "forwarded_proto": { "ports": { "https": [443] } } });
    filter["typed_config"]["config"]["configuration"] =
        json!({ "@type": "type.googleapis.com/google.protobuf.Struct", "value": value });
    let main = Listener::new("main", Hcm::new("main").filter(filter));
    let way_out = "write it as JSON in a `google.protobuf.StringValue`";
    refuses_to_start(lab, Bootstrap::new().listener(main), &[way_out]).await
}
