//! The stop of each kind of proxy, as tests/mesh measures them.

use super::*;

fn shown(proxy: &Proxy) -> String {
    let stop = Stop::of(proxy);
    format!("{}; {}", stop.cut, stop.verdict.name())
}

#[test]
fn the_settings_decide_when_a_request_is_cut() {
    let of = Proxy::of;
    let agent = |drain| Agent { drain: Some(drain), is_assumed: false, ..Agent::default() };
    let gateway = of(ProxyKind::ChartGateway);
    let set = Proxy { agent: agent(5_000), ..gateway };
    let zero = Agent { exit_on_zero: Some(5_000), ..agent(5_000) };
    let gate = |deadline, is_started_by_agent| Some(ProxyGate { deadline, is_started_by_agent });
    let manager = Manager { is_assumed: false, ..Manager::default() };
    for (name, proxy, expected) in [
        ("as installed", gateway, "5 s if the mesh's defaults hold; yes"),
        ("with the mesh's settings", set, "5 s; yes"),
        (
            "a longer drain",
            Proxy { agent: agent(60_000), grace: Some(90), ..set },
            "60 s; for long streams only",
        ),
        (
            "a drain beyond the grace period",
            Proxy { agent: agent(60_000), ..set },
            "30 s; for long streams only",
        ),
        ("no grace period", Proxy { grace: Some(0), ..set }, "2 s; yes"),
        (
            "an unknown drain",
            Proxy { agent: Agent { drain: None, ..agent(0) }, ..set },
            "not before 0 s; it depends",
        ),
        ("an unknown grace period", Proxy { grace: None, ..set }, "not before 2 s; it depends"),
        ("a sleep", Proxy { hook: Hook::Sleep(5_000), ..set }, "10 s; yes"),
        (
            "a sleep of the whole grace period",
            Proxy { hook: Hook::Sleep(60_000), ..set },
            "32 s; for long streams only",
        ),
        ("a script", Proxy { hook: Hook::Other, ..set }, "not before 5 s; it depends"),
        ("exit on zero", Proxy { agent: zero, ..set }, "30 s; for long streams only"),
        ("exit on zero, short", Proxy { agent: zero, grace: Some(10), ..set }, "10 s; yes"),
        ("a gate", Proxy { gate: gate(60_000, false), grace: Some(90), ..set }, "65 s; no"),
        (
            "a gate, short grace",
            Proxy { gate: gate(113_000, false), grace: Some(8), ..set },
            "10 s; no",
        ),
        (
            "a gate of the agent",
            Proxy { gate: gate(60_000, true), agent: agent(63_000), grace: Some(70), ..set },
            "63 s; no",
        ),
        ("Gateway API", Proxy { agent: agent(5_000), ..of(ProxyKind::GatewayApi) }, "5 s; yes"),
        ("classic", Proxy { agent: agent(5_000), ..of(ProxyKind::ClassicSidecar) }, "5 s; yes"),
        ("native", of(ProxyKind::NativeSidecar), "30 s; no"),
        ("native, exit on zero", Proxy { agent: zero, ..of(ProxyKind::NativeSidecar) }, "30 s; no"),
        ("sidecar", of(ProxyKind::Sidecar), "not before 5 s; it depends"),
        ("waypoint", Proxy { agent: agent(5_000), ..of(ProxyKind::Waypoint) }, "5 s; yes"),
        (
            "Envoy Gateway",
            Proxy { grace: Some(360), ..of(ProxyKind::EnvoyGateway) },
            "60 s if the mesh's defaults hold; for long streams only",
        ),
        (
            "Envoy Gateway, set",
            Proxy { grace: Some(360), manager, ..of(ProxyKind::EnvoyGateway) },
            "60 s; for long streams only",
        ),
        ("plain", of(ProxyKind::PlainEnvoy), "0 s; yes"),
        (
            "plain, a sleep",
            Proxy { hook: Hook::Sleep(10_000), ..of(ProxyKind::PlainEnvoy) },
            "10 s; yes",
        ),
        (
            "plain, a gate",
            Proxy { gate: gate(20_000, false), ..of(ProxyKind::PlainEnvoy) },
            "20 s; no",
        ),
        ("ambient", of(ProxyKind::AmbientApp), "not before 0 s; no"),
        (
            "ambient, a sleep",
            Proxy { hook: Hook::Sleep(5_000), ..of(ProxyKind::AmbientApp) },
            "not before 5 s; no",
        ),
    ] {
        assert_eq!(shown(&proxy), expected, "{name}");
    }
}

#[test]
fn a_job_does_not_end_beside_a_classic_sidecar() {
    let job = |kind, job| Stop::of(&Proxy { job, ..Proxy::of(kind) });
    let classic = job(ProxyKind::ClassicSidecar, Job::Unended);
    assert!(classic.why.contains("the Job does not end"), "{}", classic.why);
    assert!(classic.next.contains("docs/install/jobs.md"), "{}", classic.next);
    assert_eq!(classic.verdict, Verdict::Yes);
    assert!(!job(ProxyKind::ClassicSidecar, Job::Ended).why.contains("does not end"));
    assert_eq!(job(ProxyKind::NativeSidecar, Job::Unended).verdict, Verdict::No);
}

fn row(name: &str, proxy: &Proxy) -> Row {
    let workload =
        Workload { kind: "Deployment".to_owned(), namespace: None, name: name.to_owned() };
    let stop = Stop::of(proxy);
    let (grace, proxy) = (proxy.grace, proxy.kind);
    Row { workload, place: None, pods: None, grace, proxy, is_job: false, stop }
}

/// The failure of CI hangs on these.
#[test]
fn rows_are_sorted_by_what_is_lost_and_unknown_times_are_no_loss() {
    let script = Proxy { hook: Hook::Other, ..Proxy::of(ProxyKind::ChartGateway) };
    let rows = vec![
        row("native", &Proxy::of(ProxyKind::NativeSidecar)),
        row("ambient", &Proxy::of(ProxyKind::AmbientApp)),
        row("script", &script),
        row("gateway", &Proxy::of(ProxyKind::ChartGateway)),
        row("plain", &Proxy::of(ProxyKind::PlainEnvoy)),
    ];
    let assessment = Assessment::of(rows, [(None, 3)].into());
    let names = |rows: Vec<&Row>| -> Vec<String> {
        rows.iter().map(|row| row.workload.name.clone()).collect()
    };
    let all = names(assessment.rows.iter().collect());
    assert_eq!(all, ["plain", "gateway", "script", "native", "ambient"]);
    assert_eq!(names(assessment.losing(10_000).collect()), ["plain", "gateway"]);
    assert_eq!(names(assessment.losing(5_000).collect()), ["plain"]);
    let json = assessment.json();
    assert_eq!(json["verdicts"]["yes"], 2);
    assert_eq!(json["workloads"][1]["certainty"], "if_defaults");
    let sentences = assessment.sentences(1);
    assert!(sentences[0].starts_with("Deployment plain (Envoy without a mesh): "), "{sentences:?}");
    assert!(sentences[1].starts_with("and 3 more without laststream"), "{sentences:?}");
    let table = markdown(&assessment);
    assert!(table.contains("| Deployment gateway | chart gateway |"), "{table}");
    assert!(table.contains("5 workloads with a proxy. Does laststream help? 2 yes"), "{table}");
    assert!(table.contains("No proxy was seen in 3 workloads"), "{table}");
}
