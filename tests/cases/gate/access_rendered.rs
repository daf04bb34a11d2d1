//! The parts that `laststream render` puts around a gate: its secret and the pod's grace period
//! from outside of the configuration, and a time limit for hooks whose VM has died.

use std::os::unix::fs::symlink;

use laststream_render::Kind;
use tempfile::TempDir;

use super::bench::SOON;
use super::deaths::with_test_deaths;
use crate::cases::manifests::rendered::yaml;
use crate::cases::manifests::{node, place};
use crate::lab::{Lab, cases};
use kit::prelude::*;

const SECRET: &str = "open-sesame-0123456789";
const HEADER: &str = "x-laststream-secret";
/// The header in which Envoy passes the secret of SDS to the gate. A client may send it, too.
const EXPECTED: &str = "x-laststream-expected-secret";

cases! {
    has_its_secret_from_the_environment,
    without_its_secret_opens_nothing,
    has_its_secret_from_sds,
    follows_a_new_secret_of_sds,
    a_hook_that_a_dead_gate_holds_is_ended,
    follows_the_grace_period_of_its_pod,
}

/// An Envoy with the bootstrap that is rendered from a policy, on free ports.
struct Rendered {
    envoy: Envoy,
    gate: SocketAddr,
    main: SocketAddr,
    upstream: Upstream,
}

impl Rendered {
    async fn start(lab: &Lab, policy: &str, environment: &[&str]) -> Outcome<Self> {
        let upstream = Upstream::start().await?;
        let bootstrap = bootstrap(lab, policy, upstream.h1())?;
        let under =
            if environment.is_empty() { Vec::new() } else { [&["env"], environment].concat() };
        let under = under.into_iter().map(String::from).collect();
        // SDS requires a node, too.
        let options = Options { under, extra: node(), concurrency: 1, ..Options::default() };
        let envoy = Envoy::start(&lab.envoy, bootstrap, options).await?;
        let (gate, main) = (envoy.address("gate").await?, envoy.address("main").await?);
        Ok(Self { envoy, gate, main, upstream })
    }

    /// The status and the reason of an answer to this request.
    async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Outcome<(u16, String)> {
        let request = Request::new(method, path).host("localhost");
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        let answer = once(self.gate, &request).await?;
        let reason = answer.json().ok().and_then(|body| body["reason"].as_str().map(str::to_owned));
        Ok((answer.status, reason.unwrap_or_else(|| answer.text())))
    }

    /// The secret is required and never shown; the filter's unit tests have all operations.
    async fn wants(&self, secret: &str) -> Outcome {
        let chosen = [HEADER, EXPECTED].map(|name| (name, "0123456789abcdef"));
        for wrong in [&[][..], &[(HEADER, "another-secret-0123456789")], &chosen] {
            let (status, reason) = self.ask("GET", "/streams", wrong).await?;
            ensure!(status == 403 && reason.contains(HEADER), "{wrong:?}: {status} {reason}");
        }
        let (status, _) = self.ask("GET", "/streams", &[(HEADER, secret)]).await?;
        ensure_eq!(status, 200, "with the secret");
        let (status, _) = self.ask("GET", &format!("/prestop?secret={secret}"), &[]).await?;
        ensure_eq!(status, 503, "with the secret in the URL");
        let dump = self.envoy.admin_get("/config_dump?include_eds").await?.expect(200)?.text();
        ensure!(!dump.contains(secret) && !self.envoy.log().contains(secret), "it was told");
        Ok(())
    }

    /// Operations that need a secret get 403, whatever secret the client sends.
    async fn opens_nothing(&self) -> Outcome {
        for forged in ["", "-", SECRET] {
            let headers = [(HEADER, forged), (EXPECTED, forged)];
            let (status, reason) = self.ask("POST", "/drain", &headers).await?;
            ensure!(
                status == 403 && reason.contains("secret"),
                "with {forged:?}: {status} {reason}"
            );
        }
        let (status, state) = self.ask("GET", "/status", &[]).await?;
        ensure!(status == 200, "the status is free: {state}");
        Ok(())
    }
}

fn bootstrap(lab: &Lab, policy: &str, app: SocketAddr) -> Outcome<Value> {
    let module = lab.module.display();
    let policy = format!("module: {module}\nplacement: {{envoy: {{}}}}\n{policy}");
    let mut config = yaml(Kind::Envoy, &policy)?;
    ensure!(!config.to_string().contains(SECRET), "the secret stands in {config}");
    place(&mut config, app)?;
    Ok(config)
}

const BY_ENVIRONMENT: &str = "gate: {secret: {environment: GATE_SECRET}}";

async fn has_its_secret_from_the_environment(lab: &Lab) -> Outcome {
    // Also with a newline at the end, as in a file that was read into a variable.
    for variable in [format!("GATE_SECRET={SECRET}"), format!("GATE_SECRET={SECRET}\n")] {
        Rendered::start(lab, BY_ENVIRONMENT, &[&variable]).await?.wants(SECRET).await?;
    }
    Ok(())
}

/// The filter's unit tests have all secrets that are too short.
async fn without_its_secret_opens_nothing(lab: &Lab) -> Outcome {
    for environment in [&[][..], &["GATE_SECRET=too-short"]] {
        let rendered = Rendered::start(lab, BY_ENVIRONMENT, environment).await?;
        rendered.opens_nothing().await.with_context(|| format!("{environment:?}"))?;
    }
    let (_folder, policy) = by_sds("")?;
    Rendered::start(lab, &policy, &[]).await?.opens_nothing().await.context("SDS")
}

/// The files of SDS, and the policy that names them.
fn by_sds(secret: &str) -> Outcome<(TempDir, String)> {
    let folder = tempfile::tempdir()?;
    let (value, file) = (folder.path().join("secret"), folder.path().join("sds.yaml"));
    std::fs::write(&value, secret)?;
    std::fs::write(&file, resource(&format!("filename: {}", value.display())))?;
    let policy = format!("gate: {{secret: {{sds: {}}}}}", file.display());
    Ok((folder, policy))
}

fn resource(secret: &str) -> String {
    const KIND: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
    format!(
        "resources:\n- \"@type\": {KIND}\n  name: laststream-gate\n  \
         generic_secret: {{secret: {{{secret}}}}}\n"
    )
}

async fn has_its_secret_from_sds(lab: &Lab) -> Outcome {
    let (_folder, policy) = by_sds(SECRET)?;
    Rendered::start(lab, &policy, &[]).await?.wants(SECRET).await
}

/// The secret is replaced as kubelet does it: the files are links into a folder, which is a link
/// that is moved.
async fn follows_a_new_secret_of_sds(lab: &Lab) -> Outcome {
    const NEXT: &str = "next-sesame-9876543210";
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    let put = |version: &str, secret: &str| -> Outcome {
        std::fs::create_dir(at(version))?;
        std::fs::write(
            at(version).join("sds.yaml"),
            resource(&format!("inline_string: {secret}")),
        )?;
        symlink(version, at("..new"))?;
        Ok(std::fs::rename(at("..new"), at("..data"))?)
    };
    put("..1", SECRET)?;
    symlink("..data/sds.yaml", at("sds.yaml"))?;
    let policy = format!("gate: {{secret: {{sds: {}}}}}", at("sds.yaml").display());
    let rendered = Rendered::start(lab, &policy, &[]).await?;
    rendered.wants(SECRET).await?;
    put("..2", NEXT)?;
    wait_for(SOON, "the new secret", async || {
        ensure_eq!(
            rendered.ask("GET", "/streams", &[(HEADER, NEXT)]).await?.0,
            200,
            "with the new secret"
        );
        Ok(())
    })
    .await?;
    rendered.wants(NEXT).await
}

/// The hook's client gets an answer that is not 200. A real client asks again, and the VM that
/// replaced the dead one holds it.
async fn a_hook_that_a_dead_gate_holds_is_ended(lab: &Lab) -> Outcome {
    // Envoy ends held requests 10 s after the deadline.
    let rendered =
        Rendered::start(&with_test_deaths(lab)?, "drain: {deadline: 5s, grace_period: 30s}", &[])
            .await?;
    let client = rendered.upstream.hold(rendered.main, "a").await?;
    let gate = rendered.gate;
    let hook = async move {
        Client::connect(gate)
            .await?
            .patience(Duration::from_secs(60))
            .request(&Request::get("/prestop?wait").host("localhost"))
            .await
    };
    let hook = tokio::spawn(hook);
    wait_for(SOON, "the drain", async || match rendered.ask("GET", "/ready", &[]).await? {
        (503, reason) if reason.contains("in flight") => Ok(()),
        (status, reason) => bail!("{status} {reason}"),
    })
    .await?;
    let (status, _) = rendered.ask("GET", "/ready", &[("x-laststream-die", "abort")]).await?;
    ensure!(status >= 500, "the dead gate let a request through");
    let answer = hook.await??;
    ensure!(answer.status >= 400, "a dead gate opened: {}", answer.text());
    client.reset()
}

/// The deadline is earlier in a pod with a shorter grace period. The filter's unit tests have all
/// other texts of the variable.
async fn follows_the_grace_period_of_its_pod(lab: &Lab) -> Outcome {
    const POLICY: &str = "drain: {deadline: 500s, grace_from: GRACE}";
    for (variable, longest) in [(&[][..], 500), (&["GRACE=202"], 200)] {
        let rendered = Rendered::start(lab, POLICY, variable).await?;
        let client = rendered.upstream.hold(rendered.main, "a").await?;
        ensure_eq!(rendered.ask("POST", "/drain", &[]).await?.0, 202, "{variable:?}");
        let begun = async || {
            let request = Request::get("/status").host("localhost");
            let status = once(rendered.gate, &request).await?.json()?;
            status["deadline_in_ms"].as_u64().context("no drain")
        };
        let left = wait_for(SOON, "the drain", begun).await?;
        // Far from the next deadline, so that a slow machine changes nothing.
        ensure!((longest - 100..=longest).contains(&(left / 1_000)), "{variable:?}: {left} ms");
        let gauge = "wasmcustom.laststream_gate_deadline_seconds";
        rendered.envoy.wait_for_stat(gauge, longest, SOON).await?;
        client.reset()?;
    }
    Ok(())
}
