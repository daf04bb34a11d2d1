//! Credentials, rights, and unreachable API servers.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use kit::Outcome;
use kit::fake_server::Answer;
use kit::wire::{free_port, local};

use serde_json::json;

use crate::fleet::support::{
    Cluster, HANG, LIST, PAGE, STATUS, deleted, list, pod, statistics, status,
};

#[test]
fn a_missing_right_is_named_and_known_facts_are_shown() -> Outcome {
    let cluster = Cluster::with_pods(&[pod("a"), pod("b")], |_| {
        status(403, "Forbidden", "pods \"a\" is forbidden")
    })?;
    let wide = cluster.run(&[&STATUS[..], &["-o", "wide"]].concat())?.expect(2)?;
    assert_eq!(wide.stdout.lines().count(), 3, "{}", wide.stdout);
    let said = cluster.run(&STATUS)?.expect(2)?;
    let rows: Vec<_> = said.stdout.lines().skip(1).collect();
    let row = "2 pods  ready  unreachable  no right to `get` `pods/proxy` in namespace `shop`";
    assert_eq!(rows, [row]);
    let said = said.stderr_contains("2 pods with a proxy: 2 unreachable, 0 streams in flight")?;
    let said = said.stderr_contains("no right to `get` `pods/proxy` in namespace `shop`")?;
    let said = said.stderr_contains(": bind the ClusterRole `laststream-reader` of https://")?;
    let said = said.stderr_contains("as another user with `--as` (pods \"a\" is forbidden)")?;
    assert_eq!(said.stderr.matches("error").count(), 1, "told once: {}", said.stderr);
    Ok(())
}

/// No gate has been asked yet, so no pod shows how far its count can be believed.
#[test]
fn without_port_forwards_the_statistics_are_shown() -> Outcome {
    let cluster =
        Cluster::with_pods(&[pod("a"), deleted("b", "2200")], |asked| match asked.path() {
            path if path == statistics("a") || path == statistics("b") => {
                Answer::new(200).body(PAGE.replace("laststream_gate_count_exact{} 1\n", ""))
            }
            _ => status(403, "Forbidden", "pods is forbidden"),
        })?;
    let said = cluster.run(&STATUS)?.expect(2)?;
    let rows: Vec<_> = said.stdout.lines().skip(1).collect();
    let why = "its gate cannot be asked: no right to `get` `pods/portforward`";
    assert_eq!(rows.len(), 2, "{}", said.stdout);
    assert!(rows.iter().all(|row| row.contains("inbound 2") && row.contains(why)), "{rows:?}");
    let said = said.stderr_contains("no right to `get` `pods/portforward` in namespace `shop`")?;
    assert_eq!(said.stderr.matches("error").count(), 1, "told once: {}", said.stderr);
    Ok(())
}

#[test]
fn wrong_credentials_are_not_tried_again() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(status(401, "Unauthorized", "Unauthorized")))?;
    let said = cluster.run(&STATUS)?.expect(2)?;
    let server = cluster.server.url("");
    let words = format!("the API server at {server} does not accept the credentials (401)");
    said.stderr_contains(&words)?.stderr_contains("log in")?;
    assert_eq!(cluster.asked(LIST), 1);
    Ok(())
}

#[test]
fn an_overloaded_server_is_asked_three_times() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(status(503, "ServiceUnavailable", "overloaded")))?;
    cluster.run(&STATUS)?.expect(2)?.stderr_contains("status 503, overloaded")?;
    assert_eq!(cluster.asked(LIST), 3);
    Ok(())
}

#[test]
fn the_header_of_an_overloaded_server_says_how_long_to_wait() -> Outcome {
    for (code, seconds) in [(429, 3), (503, 2)] {
        let cluster = Cluster::start(move |asked, before| {
            Ok(match (asked.path(), before) {
                (LIST, 0) => {
                    Answer::new(code).with("retry-after", seconds.to_string()).body("later")
                }
                (LIST, _) => list(&[pod("a")], ""),
                _ => Answer::new(200).body(PAGE),
            })
        })?;
        let began = Instant::now();
        cluster.run(&STATUS)?.expect(0)?;
        assert!(began.elapsed() >= Duration::from_secs(seconds), "{code}: {:?}", began.elapsed());
    }
    Ok(())
}

#[test]
fn an_unreachable_server_and_a_missing_context_are_named() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(Answer::new(500)))?;
    let free = format!("http://{}", local(free_port()?));
    cluster.edit(|config| config["clusters"][0]["cluster"]["server"] = json!(free))?;
    let said = cluster.run(&STATUS)?.expect(2)?;
    let words = format!(
        "error: the API server at {free} cannot be reached: no program listens there; check"
    );
    said.stderr_contains(&words)?;
    let said = cluster.run(&["status", "--context", "prod"])?.expect(2)?;
    said.stderr_contains("no context `prod`; it has `test`")?;
    let mut command = cluster.command(&STATUS);
    let said = kit::command::run(command.env_remove("KUBECONFIG"))?.expect(2)?;
    let said = said.stderr_contains("no kubeconfig: `")?.stderr_contains("--kubeconfig")?;
    said.stderr_contains("this is not a pod of a cluster")?;
    Ok(())
}

#[test]
fn another_user_is_impersonated() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(list(&[], "")))?;
    let arguments = ["status", "-A", "--as", "operator", "--as-group", "a", "--as-group", "b"];
    cluster.run(&arguments)?.expect(0)?;
    let asked = cluster.server.asked();
    assert_eq!(asked[0].header("impersonate-user"), Some("operator"));
    assert_eq!(asked[0].all("impersonate-group"), ["a", "b"]);
    Ok(())
}

/// The kubeconfig's user gets credentials from this script.
fn with_credentials(cluster: &Cluster, script: &str) -> Outcome {
    let program = cluster.kubeconfig().with_file_name("login");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n"))?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700))?;
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": program,
        "interactiveMode": "IfAvailable",
    });
    cluster.edit(|config| {
        config["users"] = json!([{ "name": "operator", "user": { "exec": exec } }]);
        config["contexts"][0]["context"]["user"] = json!("operator");
    })
}

/// A sleep that would hold the test, and its outputs, for longer than any noise.
fn hang() -> String {
    format!("exec sleep {}", HANG.as_secs())
}

#[test]
fn a_login_that_hangs_does_not_block_a_command() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(list(&[], "")))?;
    with_credentials(&cluster, &hang())?;
    let said = cluster.run(&["status", "-n", "shop", "--request-timeout", "1s"])?.expect(2)?;
    said.stderr_contains("from the kubeconfig: the program that gives them does not end")?;
    let said = cluster.run(&["rollout", "deployment/web", "--timeout", "1s"])?.expect(1)?;
    said.stderr_contains("timed out: deployment/web")?;
    assert_eq!(cluster.server.asked().len(), 0);
    Ok(())
}

/// The token has expired, so the first request asks for another one.
#[test]
fn a_login_that_hangs_later_does_not_block_a_command() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(list(&[pod("a")], "")))?;
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": { "token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z" },
    });
    // kube asks three times before the first request.
    let hang = hang();
    let script = format!(
        "[ $(wc -c < $0.asked) -ge 3 ] && {hang}; printf x >> $0.asked; echo '{credential}'"
    );
    with_credentials(&cluster, &script)?;
    std::fs::write(cluster.kubeconfig().with_file_name("login.asked"), "")?;
    let said = cluster.run(&["status", "-n", "shop", "--request-timeout", "5s"])?.expect(2)?;
    said.stderr_contains("no answer within 5 s")?;
    Ok(())
}

#[test]
fn a_login_that_fails_is_named() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(list(&[], "")))?;
    with_credentials(&cluster, "echo not logged in >&2; exit 3")?;
    let said = cluster.run(&STATUS)?.expect(2)?;
    said.stderr_contains("not logged in")?
        .stderr_contains("/login` ended with exit")?
        .hides("guarded")?;
    Ok(())
}
