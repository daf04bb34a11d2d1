//! `exec` beside a real proxy whose outbound streams are counted.

use super::Operator;
use crate::cases::gate::bench::{Bench, SOON};
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::prelude::*;

cases! {
    runs_and_ends_the_proxy,
    ends_a_proxy_with_a_secret,
}

const SCOPES: &str = r#"{"scopes": ["outbound"]}"#;

struct Job {
    bench: Bench,
    operator: Operator,
    ready: String,
}

impl Job {
    async fn beside(lab: &Lab, gate: &str) -> Outcome<Self> {
        let main = hcm(lab, r#"{"scope": "outbound"}"#);
        let bench = Bench::with(lab, gate, main).await?;
        let operator = Operator::beside(&bench)?;
        let ready = format!("http://{}/ready", bench.envoy.admin());
        Ok(Self { bench, operator, ready })
    }

    fn arguments<'a>(&'a self, options: &[&'a str], script: &'a str) -> Vec<&'a str> {
        // Nothing listens at the quit URL, so that a test ends no real agent.
        [
            &["exec", "--ready-url", &self.ready, "--quit-url", "http://127.0.0.1:1/quit"],
            options,
            &["--", "sh", "-c", script],
        ]
        .concat()
    }
}

/// Two Jobs at once; each ends only its own proxy.
async fn runs_and_ends_the_proxy(lab: &Lab) -> Outcome {
    let (mut one, mut two) = tokio::try_join!(Job::beside(lab, SCOPES), Job::beside(lab, SCOPES))?;
    let first = one.operator.starts(&one.arguments(&[], "echo one; exit 5"));
    let second = two.operator.starts(&two.arguments(&["--end-proxy", "never"], "echo two"));
    let said = first.await??.expect(5)?;
    ensure_eq!((said.stdout.as_str(), said.stderr.as_str()), ("one\n", ""), "what is said");
    one.bench.envoy.exited(SOON).await?;
    ensure_eq!(second.await??.expect(0)?.stdout, "two\n", "what the other says");
    ensure!(two.bench.envoy.is_alive(), "the other lives");
    two.operator.runs(&two.arguments(&[], "true")).await?.expect(0)?;
    two.bench.envoy.exited(SOON).await?;
    Ok(())
}

async fn ends_a_proxy_with_a_secret(lab: &Lab) -> Outcome {
    const SECRET: &str = "open-sesame-0123456789";
    let gate = format!(r#"{{"scopes": ["outbound"], "secret": "{SECRET}"}}"#);
    let mut job = Job::beside(lab, &gate).await?;
    let said = job
        .operator
        .runs(&job.arguments(&["--streams-timeout", "1s", "--quit-timeout", "1s"], "exit 3"))
        .await?
        .expect(3)?;
    said.stderr_contains("was not ended")?
        .stderr_contains("x-laststream-secret is missing or wrong")?;
    ensure!(job.bench.envoy.is_alive(), "it may not be ended without the secret");
    let file = job.operator.0.argument("secret", SECRET)?;
    let options = ["--secret-file", file.as_str()];
    job.operator.runs(&job.arguments(&options, "exit 3")).await?.expect(3)?.hides(SECRET)?;
    job.bench.envoy.exited(SOON).await?;
    Ok(())
}
