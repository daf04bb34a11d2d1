//! `exec` beside a real proxy whose outbound streams are counted.

use super::Operator;
use crate::cases::gate::bench::{Bench, SOON};
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::prelude::*;

cases! {
    runs_and_ends_the_proxy,
}

const SECRET: &str = "open-sesame-0123456789";

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

/// Two Jobs at once; each ends only its own proxy, and one of them needs the gate's secret for it.
async fn runs_and_ends_the_proxy(lab: &Lab) -> Outcome {
    let with_secret = format!(r#"{{"scopes": ["outbound"], "secret": "{SECRET}"}}"#);
    let mut one = Job::beside(lab, r#"{"scopes": ["outbound"]}"#).await?;
    let mut two = Job::beside(lab, &with_secret).await?;
    let first = one.operator.starts(&one.arguments(&[], "echo one; exit 5"));
    let limits = ["--streams-timeout", "1s", "--quit-timeout", "1s"];
    let second = two.operator.starts(&two.arguments(&limits, "echo two"));
    let said = first.await??.expect(5)?;
    ensure_eq!((said.stdout.as_str(), said.stderr.as_str()), ("one\n", ""), "what is said");
    one.bench.envoy.exited(SOON).await?;
    let said = second.await??.expect(0)?.stderr_contains("was not ended")?;
    said.stderr_contains("x-laststream-secret is missing or wrong")?;
    ensure!(two.bench.envoy.is_alive(), "it may not be ended without the secret");
    let file = two.operator.0.argument("secret", SECRET)?;
    let options = ["--secret-file", file.as_str()];
    two.operator.runs(&two.arguments(&options, "exit 3")).await?.expect(3)?.hides(SECRET)?;
    two.bench.envoy.exited(SOON).await.map(drop)
}
