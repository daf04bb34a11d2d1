//! Credentials, rights, and API servers that are away.

use kit::Outcome;
use kit::fake_server::Answer;

use crate::support::{Cluster, LIST, PAGE, list, pod, status};

const STATUS: [&str; 3] = ["status", "-n", "shop"];

#[test]
fn a_missing_right_is_named_and_what_is_known_is_shown() -> Outcome {
    let cluster = Cluster::start(|asked, _| {
        Ok(if asked.path() == LIST {
            list(&[pod("a"), pod("b")], "")
        } else {
            status(403, "Forbidden", "pods \"a\" is forbidden")
        })
    })?;
    let said = cluster.run(&STATUS)?.expect(2)?;
    assert_eq!(said.stdout.lines().count(), 3, "{}", said.stdout);
    let said = said.stderr_contains("no right to `get` `pods/proxy` in namespace `shop`")?;
    let said = said.stderr_contains("laststream render rbac --verb status")?;
    assert_eq!(said.stderr.matches("error").count(), 1, "told once: {}", said.stderr);
    Ok(())
}

#[test]
fn wrong_credentials_are_not_tried_again() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(status(401, "Unauthorized", "Unauthorized")))?;
    let said = cluster.run(&STATUS)?.expect(2)?;
    said.stderr_contains("does not accept the credentials (401)")?.stderr_contains("log in")?;
    assert_eq!(cluster.asked(LIST), 1);
    Ok(())
}

#[test]
fn an_overloaded_server_is_asked_three_times() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(status(503, "ServiceUnavailable", "overloaded")))?;
    cluster.run(&STATUS)?.expect(2)?.stderr_contains("status 503, overloaded")?;
    assert_eq!(cluster.asked(LIST), 3);
    let cluster = Cluster::start(|asked, before| {
        Ok(match (asked.path(), before) {
            (LIST, 0) => status(429, "TooManyRequests", "later"),
            (LIST, _) => list(&[pod("a")], ""),
            _ => Answer::new(200).body(PAGE),
        })
    })?;
    cluster.run(&STATUS)?.expect(0)?;
    Ok(())
}

#[test]
fn a_server_that_is_away_and_a_context_that_is_not_there_are_named() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(Answer::new(500)))?;
    let config = std::fs::read_to_string(cluster.kubeconfig())?;
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let config = config.replace(&cluster.server.url(""), &format!("http://{free}"));
    std::fs::write(cluster.kubeconfig(), config)?;
    let said = cluster.run(&STATUS)?.expect(2)?;
    said.stderr_contains(&format!("the API server at http://{free} cannot be reached"))?;
    let said = cluster.run(&["status", "--context", "prod"])?.expect(2)?;
    said.stderr_contains("no context `prod`; it has `test`")?;
    let mut command = cluster.command(&STATUS);
    let said = kit::command::run(command.env_remove("KUBECONFIG"))?.expect(2)?;
    said.stderr_contains("no kubeconfig: `")?.stderr_contains("--kubeconfig")?;
    Ok(())
}

#[test]
fn another_user_is_impersonated() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(list(&[], "")))?;
    let arguments = ["status", "--as", "operator", "--as-group", "a", "--as-group", "b"];
    cluster.run(&arguments)?.expect(0)?;
    let asked = cluster.server.asked();
    assert_eq!(asked[0].header("impersonate-user"), Some("operator"));
    assert_eq!(asked[0].header("impersonate-group"), Some("a"), "the first of two");
    Ok(())
}
