//! The engine of each placement and policy, and the versions of proxies.

use regex::Regex;

use super::{NEWER, Scheme};
use crate::placement::Leaves;
use crate::tests::policy;

/// Whether only the module restores the header, and the comment at the head of the file.
fn engine_of(text: &str) -> Result<(bool, String), String> {
    let policy = policy(text);
    let scheme = Scheme::of(&policy, str::to_owned).map_err(|refused| refused.to_string())?;
    let by_module = scheme.is_restored_by_module() && scheme.newer().is_none();
    Ok((by_module, scheme.about().unwrap_or_default()))
}

const PROTO: &str = "forwarded_proto: {trust: {peers: [10.0.0.0/8]}, ";

/// A policy with this `forwarded_proto`.
fn text(placement: &str, engine: &str, proto: &str) -> String {
    format!("namespace: n\nplacement: {{{placement}}}\nengine: {engine}\n{PROTO}{proto}}}")
}

#[test]
fn placement_and_engine_choose_matchers_or_the_module() {
    for (placement, engine, expected) in [
        ("envoy: {}", "auto", "matchers"),
        ("envoy: {}", "native", "matchers"),
        ("envoy: {}", "wasm", "module"),
        ("envoy_gateway: {gateway: g}", "auto", "matchers"),
        ("envoy: {}", "composite", "matchers"),
        ("gateway: {}", "auto", "both"),
        ("gateway: {}", "native", "matchers"),
        ("gateway: {}", "composite", "both"),
        ("gateway: {}", "wasm", "module"),
        ("gateway_api: {gateway: g}", "auto", "both"),
        ("sidecar: {}", "auto", "both"),
        ("sidecar: {}", "native", "matchers"),
        ("sidecar: {}", "composite", "both"),
    ] {
        let text = text(placement, engine, "presets: [aws_alb]");
        let policy = policy(&text);
        let scheme = Scheme::of(&policy, str::to_owned).expect(&text);
        let found = match &scheme {
            Scheme::Untouched => "nothing",
            Scheme::Module(..) => "module",
            Scheme::Envoy(_) => "matchers",
            Scheme::ByVersion(..) => "both",
        };
        assert_eq!(found, expected, "{text}");
        let about = scheme.about();
        assert_eq!(about.is_none(), engine == "wasm", "told unless it was asked for: {about:?}");
    }
    assert!(matches!(Scheme::of(&policy("engine: native"), str::to_owned), Ok(Scheme::Untouched)));
    let text = text("envoy_gateway: {gateway: g}", "composite", "presets: [gcp]");
    let refused = engine_of(&text).expect_err("match_delegate is there, and costs less");
    assert!(refused.contains("`auto` or `native`"), "{refused}");
}

/// Only versions whose Envoy certainly has the matcher, which 1.38 ignores.
#[test]
fn proxies_of_istio_1_31_and_newer_are_known_by_their_version() {
    const MATCHED: &str = concat!(
        "1.31.0|1.31.12|1.31.0-rc.1|1.31.0-asm.1|1.31.2-tetrate-v0|1.31.0.7|1.32-dev|",
        "1.32-alpha.0a1b|1.39.1|1.40.0|1.99.0|1.100.0|1.310.0",
    );
    const OTHERS: &str = concat!(
        "|unknown|1.3|1.3.1|1.30.0|1.30.31|1.30-dev|1.30.2-asm.31|1.31|1.31-alpha.0a1b|",
        "1.31-dev|1.31.x|1.28.3|1.9.9|11.31.0|0.1.31.0|2.1.31.0|2.0.0|release-1.31|v1.31.0|",
        "OSSM_2.6.0|latest|1.031.0|1.x32.0| 1.31.0|1,31.0|1.3a.0",
    );
    let newer = Regex::new(NEWER).expect("a pattern");
    for version in MATCHED.split('|') {
        assert!(newer.is_match(version), "{version}");
    }
    for version in OTHERS.split('|') {
        assert!(!newer.is_match(version), "{version}");
    }
}

/// The module leaves http at a sidecar, which is right for the matchers only if no peer gets
/// the connection's scheme.
#[test]
fn matchers_at_a_sidecar_need_the_connection_only_for_peers_that_get_its_scheme() {
    for (fallbacks, needs) in [
        ("fallback: http", false),
        ("fallback: connection", true),
        ("fallback: http, silent: connection", true),
        ("fallback: keep", false),
    ] {
        let text = text("sidecar: {}", "auto", &format!("presets: [gcp], {fallbacks}"));
        let policy = policy(&text);
        let scheme = Scheme::of(&policy, str::to_owned).expect(&text);
        assert_eq!(scheme.needs_connection(&policy), needs, "{text}");
    }
}

/// Envoy overwrites the header at gateways, and matchers need what Envoy writes.
#[test]
fn only_a_sidecar_with_the_module_starts_as_http() {
    for (placement, engine, fallback, expected) in [
        ("sidecar: {}", "wasm", "http", Leaves::Http),
        ("sidecar: {}", "wasm", "connection", Leaves::Http),
        ("sidecar: {}", "wasm", "keep", Leaves::Own),
        ("sidecar: {}", "native", "connection", Leaves::Connection),
        ("gateway: {}", "wasm", "http", Leaves::Connection),
        ("gateway_api: {gateway: g}", "wasm", "http", Leaves::Connection),
        ("envoy_gateway: {gateway: g}", "wasm", "http", Leaves::Connection),
        ("envoy: {}", "wasm", "http", Leaves::Connection),
    ] {
        let text = text(placement, engine, &format!("presets: [gcp], fallback: {fallback}"));
        let policy = policy(&text);
        let scheme = Scheme::of(&policy, str::to_owned).expect(&text);
        let early = scheme.early(&policy).expect(&text);
        assert_eq!(early.leaves, expected, "{text}");
    }
}

/// The version of Envoy is not known, and only `placement.envoy` has filter chains for trusted
/// peers.
#[test]
fn destination_ports_are_left_to_the_module_unless_asked_for() {
    const NLB: &str = "presets: [nlb]";
    let envoy = |more: &str| format!("placement: {{envoy: {{}}}}\n{PROTO}{NLB}{more}}}\n");
    let (by_module, about) = engine_of(&envoy("")).expect("a policy");
    assert!(by_module && about.contains("Envoy 1.38"), "{about}");
    let (by_module, about) = engine_of(&format!("{}engine: native", envoy(""))).expect("a policy");
    assert!(!by_module && about.contains("forward_proto_config"), "{about}");
    for placement in ["envoy_gateway: {gateway: g}", "gateway: {}", "gateway_api: {gateway: g}"] {
        let text = format!("namespace: n\nplacement: {{{placement}}}\n{PROTO}{NLB}}}");
        refuses(&text, "only `placement.envoy`");
    }
    for (more, word) in [
        (", ports: {https: [443, 10000]}", "own port 10000"),
        (", write_scheme: true", "write_scheme"),
        (", write_port: true", "write_port"),
        (", strip: {twins: true}", "strip"),
    ] {
        refuses(&envoy(more), word);
    }
}

/// Both work only on a listener whose header Envoy certainly overwrites.
#[test]
fn matchers_keep_the_header_of_all_peers_or_of_none() {
    let both = "presets: [gcp], silent: keep}";
    refuses(
        &format!("namespace: n\nplacement: {{envoy_gateway: {{gateway: g}}}}\n{PROTO}{both}"),
        "`keep` and `connection` together",
    );
    assert!(
        engine_of(&format!("placement: {{envoy: {{}}}}\nengine: native\n{PROTO}{both}")).is_ok()
    );
}

#[test]
fn policies_that_matchers_cannot_express_use_the_module_or_are_refused() {
    for (proto, word) in [
        ("presets: [cloudflare]}", "`cf-visitor` is JSON"),
        ("sources: [{header: forwarded}]}", "`forwarded` has a grammar"),
        ("sources: [{header: x-tls, form: present}]}", "`x-tls` counts by its presence"),
        ("sources: [{header: x-forwarded-port}], ports: {https: []}}", "`ports` for both"),
        (
            "sources: [{header: x-forwarded-port}], ports: {https: [1, 2, 3, 4, 5, 6, 7, 8]}}",
            "more `ports`",
        ),
        ("presets: [gcp], strip: {twins: true}}", "strip"),
        ("presets: [gcp], write_scheme: true}", "write_scheme"),
        ("presets: [gcp], write_port: true}", "write_port"),
    ] {
        refuses(&format!("placement: {{envoy: {{}}}}\n{PROTO}{proto}"), word);
    }
    refuses(
        "placement: {envoy: {}}\nforwarded_proto: {presets: [gcp], trust: {identities: \
            [{exact: a}]}}",
        "identities",
    );
    let many: Vec<String> =
        (0..1001).map(|number| format!("10.{}.{}.0/24", number / 256, number % 256)).collect();
    let many = many.join(", ");
    refuses(
        &format!(
            "placement: {{envoy: {{}}}}\nforwarded_proto: {{presets: [gcp], trust: {{peers: \
                [{many}]}}}}"
        ),
        "1000 ranges",
    );
}

fn refuses(text: &str, word: &str) {
    let (by_module, about) = engine_of(text).expect(text);
    assert!(by_module && about.contains(word), "{text}\n{about}");
    let refused = engine_of(&format!("{text}\nengine: native")).expect_err(text);
    assert!(
        refused.starts_with("engine: ") && refused.contains(word) && refused.contains("`wasm`"),
        "{refused}"
    );
}
