//! No headers that a client sends end the VM; afterwards the filter still works and counts.

use crate::cases::stage::{BEGUN, Stage, no_vm_has_died, routes};
use crate::lab::{Lab, cases};
use kit::prelude::*;

cases! {
    odd_headers_never_end_the_vm,
    ten_thousand_headers_never_end_the_vm,
}

/// Every rule that reads a header is on, and every peer is trusted.
const ALL: &str = r#"{
    "count": {
        "exclude": {
            "paths": [{"exact": "/never"}], "headers": [{"name": "x-never", "exact": "1"}],
            "health_checks": true
        },
        "long_lived": {
            "upgrades": true, "grpc": true, "event_streams": true, "headers": [{"name": "x-never"}],
            "routes": [{"exact": "never"}]
        }
    },
    "forwarded_proto": {
        "trust": {"peers": ["127.0.0.0/8"]},
        "presets": ["aws_alb", "cloudflare", "cloudfront"],
        "sources": [{"header": "forwarded"}, {"header": "x-forwarded-ssl"}, {"header": "x-odd"}],
        "write_scheme": true, "write_port": true, "strip": {"untrusted": true, "twins": true}
    }
}"#;

fn odd_values() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = (1..=255u8)
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .map(|byte| vec![byte, b'x', byte])
        .collect();
    values.push(Vec::new());
    values.push(vec![0xff; 100]);
    values.push(b"\xc3\x28\xf0\x9f\x98".to_vec());
    values.push(vec![b'a'; 60_000]);
    values.push(b",".repeat(30_000));
    values.push(b"for=\"".repeat(5_000));
    values.push(b"[".repeat(50_000));
    values.push(br#"{"scheme":"#.repeat(5_000));
    values
}

async fn odd_headers_never_end_the_vm(lab: &Lab) -> Outcome {
    let hcm = Hcm::new("main").filter(filters::direct_peer()).filter(lab.stream(ALL).filter());
    let stage = Stage::with(lab, routes(hcm).with("/max_request_headers_kb", 256.into())).await?;
    let (mut taken, mut refused) = (0, 0);
    for name in [
        "cf-visitor",
        "forwarded",
        "x-forwarded-proto",
        "x-forwarded-port",
        "x-odd",
        "accept",
        "x_forwarded_ssl",
    ] {
        for value in odd_values() {
            let request = Request::get("/echo")
                .header(name, &value)
                .header(name, &value)
                .header("x-odd", "https");
            match once(stage.main, &request).await?.status {
                200 => taken += 1,
                400 => refused += 1, // control characters: Envoy's own codec refuses those
                status => {
                    ensure!(false, "{name}: {:?}… got {status}", value.get(..9).unwrap_or(&value))
                }
            }
        }
    }
    ensure!(taken > 1_500 && refused > 100, "{taken} taken, {refused} refused");
    for name in [&b"x-\xff"[..], b"x y", b"", b"x\x01"] {
        let status = once(stage.main, &Request::get("/echo").header(name, "1")).await?.status;
        ensure!(matches!(status, 200 | 400), "the name {name:?} got {status}");
    }
    still_alive(&stage).await
}

async fn ten_thousand_headers_never_end_the_vm(lab: &Lab) -> Outcome {
    let hcm = Hcm::new("main")
        .filter(filters::direct_peer())
        .filter(lab.stream(ALL).filter())
        .with("/max_request_headers_kb", 1024.into())
        .with("/common_http_protocol_options/max_headers_count", 20_000.into());
    let stage = Stage::with(lab, routes(hcm)).await?;
    let mut client = Client::connect(stage.main).await?;
    for round in 0..3 {
        let many = (0..10_000).fold(Request::get("/status/200"), |request, index| {
            request.header(format!("x_h{index}"), "https")
        });
        client.request(&many).await?.expect(200)?;
        let same = (0..10_000).fold(Request::get("/status/200"), |request, index| {
            request.header("forwarded", format!("for=a{index};proto=http"))
        });
        client.request(&same).await?.expect(200)?;
        ensure_eq!(stage.envoy.stat(BEGUN).await?, Some(2 * (round + 1)), "begun");
    }
    still_alive(&stage).await
}

async fn still_alive(stage: &Stage) -> Outcome {
    no_vm_has_died(&stage.envoy)?;
    let request = Request::get("/echo").header("x-odd", "https").header("x-forwarded-port", "443");
    once(stage.main, &request).await?.expect(200)?;
    let scheme = stage.upstream.last()?.header("x-forwarded-proto");
    ensure_eq!(scheme, Some("https".into()), "the filter still does its work");
    stage.wait_until_idle().await
}
