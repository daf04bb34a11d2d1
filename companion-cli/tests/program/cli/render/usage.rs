//! `render`: which requests are refused or warned about, and the messages.

use std::path::Path;

use kit::Outcome;

use super::{DIGEST, folder, gateway, render, render_policy};
use crate::cli::support::laststream;

#[test]
fn a_module_is_enough() -> Outcome {
    let module = format!("oci://ghcr.io/example/laststream:0.1.0@{DIGEST}");
    let render = format!("render envoyfilter --module {module} --namespace edge --name last");
    laststream(Path::new("."), render.split(' '))?
        .expect(0)?
        .stdout_contains("name: last.edge.gate")?
        .stdout_contains(&format!("uri: oci://ghcr.io/example/laststream@{DIGEST}"))?;
    Ok(())
}

/// kubectl and the API server then refuse another namespace.
#[test]
fn a_patch_names_the_namespace_of_the_policy() -> Outcome {
    let sidecar = format!(
        "namespace: shop\nplacement: {{sidecar: {{workload: web}}}}\ndelivery: image_volume\n\
         module: oci://h/r@{DIGEST}\n"
    );
    for kind in ["lifecycle", "image-volume", "proxy-config"] {
        let text = render_policy(&sidecar, &[kind])?.expect(0)?.stdout.replace("\n# ", " ");
        for words in ["  namespace: shop\n", "kubectl --namespace shop patch deployment web"] {
            assert!(text.contains(words), "`{words}` in {text}");
        }
    }
    // Istio's root namespace is also for proxies of others.
    let gateway =
        format!("namespace: istio-system\nmodule: oci://h/r@{DIGEST}\ndrain: {{starts: hook}}\n");
    for root in [gateway, sidecar.replace("shop", "istio-system")] {
        let pod = ["lifecycle", "--for", "pod"];
        let text = render_policy(&root, &pod)?.expect(0)?.stdout_contains("kubectl patch")?.stdout;
        assert!(!text.contains("namespace"), "{text}");
    }
    Ok(())
}

#[test]
fn policies_that_cannot_be_rendered_are_refused_with_the_reason() -> Outcome {
    let sidecar = "namespace: a\nplacement: {sidecar: {}}\n";
    let waypoint = "namespace: a\nplacement: {waypoint: {gateway: w}}\n";
    let envoy = "placement: {envoy: {}}\n";
    let job = "job: {container: a, command: [b], program_image: c}";
    for (kind, policy, code, words) in [
        ("envoyfilter", String::new(), 2, "module: is required"),
        ("envoyfilter", "module: oci://ghcr.io/example/laststream:latest".into(), 2, "--digest"),
        ("envoyfilter", format!("{waypoint}module: /a.wasm"), 2, "wasmplugin"),
        ("envoyfilter", format!("{envoy}module: /a.wasm"), 2, "render envoy"),
        ("envoyfilter", "module: ./a.wasm".into(), 2, "`./a.wasm` is a relative path"),
        ("wasmplugin", format!("{waypoint}module: a.wasm"), 2, "write the path of the file"),
        ("envoy", gateway(), 2, "placement: {envoy: {}}"),
        ("envoy", format!("{envoy}module: https://h/a.wasm\ndigest: {DIGEST}"), 2, "name the file"),
        ("envoy", format!("{envoy}module: oci://h/r:t"), 2, "`laststream module --file "),
        ("envoy-gateway", gateway(), 2, "envoy_gateway"),
        ("lifecycle", waypoint.into(), 2, "delivery: image_volume"),
        ("lifecycle", "gate: {enabled: false}".into(), 2, "leave `enabled: false` out"),
        ("lifecycle --for gateway-chart", sidecar.into(), 2, "--for pod"),
        ("lifecycle", String::new(), 2, "is `agent`, so no stop hook is needed"),
        (
            "lifecycle --for native-sidecar",
            "drain: {starts: hook}".into(),
            2,
            "--for gateway-chart",
        ),
        ("proxy-config", envoy.into(), 2, "placement"),
        ("proxy-config", "gate: {enabled: false}".into(), 2, "does not do by itself"),
        ("virtualservice", String::new(), 2, "retries: {host"),
        ("schema", String::new(), 64, "`--policy` has no effect on `render schema`"),
        ("job", String::new(), 2, "job: {container"),
        ("job", job.into(), 2, "placement: {sidecar: {}}"),
        ("envoyfilter --for pod", gateway(), 64, "--for"),
        ("lifecycles", String::new(), 64, "lifecycle"),
        ("all", gateway(), 64, "--output-dir DIR"),
        ("all -d yaml", gateway(), 64, "write `./yaml`"),
        ("envoyfilter --output", gateway(), 64, "--output-dir"),
        ("all --check a --output-dir b", String::new(), 64, "--output-dir"),
        ("envoyfilter", "nam: x".into(), 2, "-: line 1, column 1"),
    ] {
        let mut arguments: Vec<_> = kind.split(' ').collect();
        if !policy.contains("namespace") && kind != "schema" {
            arguments.extend(["--namespace", "edge"]);
        }
        let output = render_policy(&policy, &arguments)?;
        let output = output.expect(code)?.stderr_contains(words)?;
        assert!(output.stdout.is_empty(), "{kind} {policy}: {output:?}");
    }
    laststream(Path::new("."), ["render", "all", "--policy", "/nowhere/policy.yaml"])?
        .expect(2)?
        .stderr_contains("/nowhere/policy.yaml")?;
    Ok(())
}

#[test]
fn questionable_policies_get_a_warning() -> Outcome {
    let every_peer = gateway().replace("10.0.0.0/16", "0.0.0.0/0");
    render_policy(&every_peer, &["envoyfilter"])?
        .expect(0)?
        .stderr_contains("every address is trusted")?;
    let secret = gateway() + "pull_secret: registry\n";
    render_policy(&secret, &["envoyfilter"])?.expect(0)?.stderr_contains("wasmplugin")?;
    let volume = "namespace: a\nplacement: {waypoint: {gateway: w}}\ndelivery: image_volume\n";
    let download = ["wasmplugin", "--module", "https://h/a.wasm", "--digest", DIGEST];
    render_policy(volume, &download)?.expect(0)?.stderr_contains("this proxy has no gate")?;
    let refused = format!("{volume}gate: {{enabled: false}}");
    let rendered = render_policy(&refused, &download)?.expect(0)?;
    assert!(!rendered.stderr.contains("no gate"), "{rendered:?}");
    let class = gateway() + "placement: {gateway_api: {class: istio}}\n";
    render_policy(&class, &["envoyfilter"])?.expect(0)?.stderr_contains("meant for a class")?;
    // A Job has no request that it takes.
    let job = format!(
        "namespace: shop\nmodule: oci://h/r@{DIGEST}\nplacement: {{sidecar: {{native: false}}}}\n\
         job: {{name: j, container: app, command: [/x], program_image: \"h/r:t\"}}\n"
    );
    let folder = folder(&job);
    let all = ["all", "--policy", "policy.yaml", "--output-dir", "out"];
    let rendered = render(folder.path(), &all)?.expect(0)?;
    assert!(!rendered.stderr.contains("requests of up to"), "{rendered:?}");
    Ok(())
}

#[test]
fn what_a_profile_gives_is_said() -> Outcome {
    let profile = gateway() + "profile: streaming\nend: {event_stream: wait}\n";
    let said = render_policy(&profile, &["envoyfilter"])?.expect(0)?;
    said.stderr_contains("the profile gave drain.longest_request: 300s")?
        .stderr_contains("end.websocket: end")?
        .hides("end.event_stream")?
        .stdout_contains("\"deadline_ms\": 303000")?;
    Ok(())
}

/// The hook, its time-out and the grace period are the same in every home.
#[test]
fn hooks_and_times_are_the_same_in_every_home() -> Outcome {
    let policy = "namespace: edge\ndrain: {longest_request: 60s, starts: hook}";
    for home in ["pod", "helm-values", "gateway-chart"] {
        render_policy(policy, &["lifecycle", "--for", home])?
            .stdout_contains("--url=http://127.0.0.1:16091/prestop")?
            .stdout_contains("--timeoutSeconds=64")?
            .stdout_contains("terminationGracePeriodSeconds: 70")?;
    }
    Ok(())
}
