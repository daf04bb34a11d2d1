//! The SDK panics when a host call returns an unexpected status, or bytes that are not UTF-8.
//! `filter/src/envoy.rs` lists the calls; the cases provoke each such result that Envoy, its
//! neighbours or its clients can cause.

use crate::cases::gate::bench::Bench;
use crate::cases::stage::{BEGUN, Stage, hcm, no_vm_has_died, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::extension;
use kit::fake_server::{FakeServer, Fault};
use kit::prelude::*;

cases! {
    an_answer_that_breaks_off_ends_no_vm,
    names_that_are_not_utf8_end_no_vm,
    empty_properties_trust_no_peer,
}

/// An incomplete response, after which the connection is closed. Envoy then reports to the module
/// that the call has failed, and there is no header to read.
const BROKEN_OFF: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf";

/// The admin interface and the app both answer so; the gate reads the status and a header of their
/// answers.
async fn an_answer_that_breaks_off_ends_no_vm(lab: &Lab) -> Outcome {
    let gate = r#"{
        "quiet_ms": 300, "deadline_ms": 3000, "admin": {"cluster": "broken"},
        "app": {"cluster": "broken"}
    }"#;
    let broken = FakeServer::start(|_, _| Err(Fault::Bytes(BROKEN_OFF)))?;
    let bootstrap = Bootstrap::new().cluster(cluster::h1("broken", broken.address));
    let bench = Bench::upon(bootstrap, lab, gate, hcm(lab, "{}")).await?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "failed").await?;
    bench.until("state", "expired").await?;
    bench.post("/quitquitquit").await?.expect(502)?;
    ensure!(
        bench.envoy.log_contains("the call that makes traffic leave failed"),
        "the calls have failed: {}",
        bench.envoy.tail()
    );
    no_vm_has_died(&bench.envoy)
}

const READS_ALL: &str = r#"{
    "count": {
        "exclude": {"headers": [{"name": "x-never"}]},
        "long_lived": {"headers": [{"name": "x-never"}]}
    },
    "forwarded_proto": {
        "trust": {"peers": ["127.0.0.0/8"]}, "sources": [{"header": "x-odd"}],
        "strip": {"untrusted": true, "twins": true}
    }
}"#;

/// Clients cannot send such names, but a filter can write them.
async fn names_that_are_not_utf8_end_no_vm(lab: &Lab) -> Outcome {
    let adds = r#"
        function envoy_on_request(handle) handle:headers():add(
            "x-\255\254", "1"
        ) handle:headers():add("\192", "\255") end
    "#;
    let lua = extension(
        "envoy.filters.http.lua",
        "envoy.extensions.filters.http.lua.v3.Lua",
        json!({ "default_source_code": { "inline_string": adds } }),
    );
    let counts = r#"function envoy_on_request(handle) local odd = 0
        for name in pairs(handle:headers()) do
            if name:find("[\128-\255]") then odd = odd + 1 end
        end
        handle:respond({[":status"] = "200", ["x-odd-names"] = tostring(odd),
            ["x-proto"] = handle:headers():get("x-forwarded-proto")}, "seen") end"#;
    let mut witness = lua.clone();
    witness["name"] = json!("witness");
    witness["typed_config"]["default_source_code"]["inline_string"] = json!(counts);
    let hcm = Hcm::new("main")
        .filter(filters::direct_peer())
        .filter(lua)
        .filter(lab.stream(READS_ALL).filter())
        .filter(witness);
    let stage = Stage::with(lab, routes(hcm)).await?;
    for _ in 0..10 {
        let answer =
            once(stage.main, &Request::get("/echo").header("x-odd", "https")).await?.expect(200)?;
        ensure_eq!(answer.header("x-odd-names"), Some("2".into()), "names that are not UTF-8");
        let scheme = answer.header("x-proto");
        ensure_eq!(scheme, Some("https".into()), "the filter reads what comes before and after");
    }
    stage.wait_until_idle().await?;
    ensure_eq!(stage.envoy.stat(BEGUN).await?, Some(10), "begun");
    no_vm_has_died(&stage.envoy)
}

/// The host allocates nothing for an empty value. An empty peer is untrusted, as a missing one is.
async fn empty_properties_trust_no_peer(lab: &Lab) -> Outcome {
    let policy = r#"{"forwarded_proto": {
        "trust": {"peers": ["0.0.0.0/0", "::/0"], "identities": [{"prefix": "spiffe://mesh/"}]},
        "sources": [{"header": "x-odd"}]
    }}"#;
    let mut nothing = filters::filter_state("laststream.direct_peer", "%REQ(x-nothing)%");
    nothing["typed_config"]["on_request_headers"][0]["format_string"]["omit_empty_values"] =
        json!(true);
    let hcm = Hcm::new("main").filter(nothing).filter(lab.stream(policy).filter());
    let stage = Stage::with(lab, routes(hcm)).await?;
    for _ in 0..3 {
        let request =
            Request::get("/echo").header("x-odd", "https").header("x-forwarded-proto", "https");
        once(stage.main, &request).await?.expect(200)?;
        let scheme = stage.upstream.last()?.header("x-forwarded-proto");
        ensure_eq!(scheme, Some("http".into()), "the connection's own scheme");
    }
    stage.wait_until_idle().await?;
    let untrusted = "wasmcustom.laststream_forwarded_proto_untrusted_gateway_total";
    ensure_eq!(stage.envoy.stat(untrusted).await?, Some(3), "untrusted");
    no_vm_has_died(&stage.envoy)
}
