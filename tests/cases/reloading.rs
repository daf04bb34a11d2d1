//! The count survives when configuration, code or listeners are replaced.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::cases::stage::{
    ACTIVE, BEGUN, IN_FLIGHT, SOON, clusters, counts, discovered, hcm, routes,
};
use crate::lab::{Lab, cases};
use kit::bootstrap::filters::Wasm;
use kit::prelude::*;
use kit::wire::free_port;
use kit::xds::{Verdict, Xds};
use laststream_local::envoy::Version;

cases! {
    the_count_survives_replaced_configuration_and_code,
    the_count_survives_replaced_and_removed_listeners,
    clients_of_a_replaced_filter_chain_leave_by_the_drain_strategy,
}

/// Requests that are held, all of which must be counted.
struct Held<'u> {
    upstream: &'u Upstream,
    clients: Vec<Client>,
}

impl<'u> Held<'u> {
    fn new(upstream: &'u Upstream) -> Self {
        Self { upstream, clients: Vec::new() }
    }

    async fn more(&mut self, envoy: &Envoy, count: usize) -> Outcome {
        let main = envoy.address("main").await?;
        self.clients.extend(self.upstream.hold_many(main, "all", count).await?);
        Ok(())
    }

    /// Every one of ten readings equals the number of held requests.
    async fn counted(&self, envoy: &Envoy, when: &str) -> Outcome {
        let all = self.clients.len() as u64;
        for _ in 0..10 {
            ensure_eq!(
                counts(envoy).await?,
                (all, all),
                "in flight, by the module and by Envoy, {when}"
            );
        }
        Ok(())
    }

    async fn release(self, envoy: &Envoy) -> Outcome {
        let all = self.clients.len() as u64;
        self.upstream.release("all");
        for mut client in self.clients {
            client.response("GET").await?.expect(200)?;
        }
        envoy.wait_for_stat(ACTIVE, 0, SOON).await?;
        envoy.wait_for_stat(IN_FLIGHT, 0, SOON).await?;
        ensure_eq!(envoy.stat(BEGUN).await?, Some(all), "begun");
        Ok(())
    }
}

async fn the_count_survives_replaced_configuration_and_code(lab: &Lab) -> Outcome {
    let (folder, other_code) = other_code(lab)?;
    let upstream = Upstream::start().await?;
    let xds = Xds::new()?;
    let first = lab.stream("{}");
    xds.write_filter("laststream", &first.typed_config())?;
    let main = Listener::new("main", discovered(&xds));
    let config = clusters(Bootstrap::new(), &upstream).listener(main).build();
    let envoy = Envoy::start(&lab.envoy, config, Options::default()).await?;
    let mut held = Held::new(&upstream);
    held.more(&envoy, 10).await?;
    held.counted(&envoy, "at first").await?;

    let rules = r#"{"count": {"exclude": {"paths": [{"prefix": "/nowhere"}]}}}"#;
    let at_once = Wasm { module: &other_code, vm_id: "new", configuration: rules, ..first.clone() };
    let other_vm = Wasm { vm_configuration: "other", ..first.clone() };
    let no_code = Wasm { module: folder.path(), ..first.clone() };
    let refused = Wasm { configuration: "[]", ..first.clone() };
    let steps = [
        ("another configuration", Wasm { configuration: rules, ..first.clone() }, true),
        ("another VM", other_vm, true),
        ("a refused configuration", refused, false),
        ("other code", Wasm { module: &other_code, ..first.clone() }, true),
        ("code that is none", no_code, false),
        ("everything at once", at_once, true),
        ("the first again", first.clone(), true),
    ];
    for (what, wasm, is_accepted) in steps {
        let when = &format!("after {what}");
        let verdict = xds.replace_filter(&envoy, "laststream", &wasm.typed_config()).await?;
        ensure_eq!(verdict == Verdict::Accepted, is_accepted, "{when}: {verdict:?}");
        held.counted(&envoy, when).await?;
        held.more(&envoy, 3).await?;
        held.counted(&envoy, &format!("{when}, with more")).await?;
    }
    held.release(&envoy).await
}

/// The same module with one more custom section. The bytes differ, so Envoy starts other VMs.
fn other_code(lab: &Lab) -> Outcome<(TempDir, PathBuf)> {
    let folder = TempDir::new().context("a folder")?;
    let path = folder.path().join("other.wasm");
    let mut code = fs::read(&lab.module).context("the module")?;
    code.extend([0, 6, 5, b'o', b't', b'h', b'e', b'r']);
    fs::write(&path, code).context("the other module")?;
    Ok((folder, path))
}

/// A replaced listener drains for ten minutes. Streams that began with the filter are counted until
/// they end, whatever comes after them; Envoy does not call the module for later ones.
async fn the_count_survives_replaced_and_removed_listeners(lab: &Lab) -> Outcome {
    let upstream = Upstream::start().await?;
    let (xds, port) = (Xds::new()?, free_port()?);
    let listener = |configuration: &str, prefix: &str| {
        let hcm = hcm(lab, configuration).with("/server_name", prefix.into());
        Listener::new("main", hcm).port(port)
    };
    xds.write_listeners(&[listener("{}", "one")])?;
    let config = clusters(Bootstrap::new(), &upstream).listeners_from(&xds).build();
    let options = Options { drain_time_s: Some(600), ..Options::default() };
    let envoy = Envoy::start(&lab.envoy, config, options).await?;
    let mut held = Held::new(&upstream);
    held.more(&envoy, 10).await?;
    for (name, configuration) in
        [("two", "{}"), ("three", r#"{"count": {"long_lived": {"grpc": true}}}"#), ("four", "")]
    {
        xds.replace_listeners(&envoy, &[listener(configuration, name)]).await?.accepted()?;
        held.counted(&envoy, name).await?;
        held.more(&envoy, 5).await?;
        held.counted(&envoy, &format!("{name}, with more")).await?;
    }
    let broken = listener(r#"{"scope": 3}"#, "five");
    let verdict = xds.replace_listeners(&envoy, &[broken]).await?;
    ensure_eq!(verdict, Verdict::Rejected, "a broken configuration");
    held.counted(&envoy, "after a refused listener").await?;
    let without = Listener::new("main", routes(Hcm::new("main"))).port(port);
    xds.replace_listeners(&envoy, &[without]).await?.accepted()?;
    held.counted(&envoy, "after the filter was taken out").await?;
    once(envoy.address("main").await?, &Request::get("/echo")).await?.expect(200)?;
    ensure_eq!(envoy.stat(BEGUN).await?, Some(25), "begun under the filter");
    xds.replace_listeners(&envoy, &[]).await?.accepted()?;
    held.counted(&envoy, "after the listener was removed").await?;
    held.release(&envoy).await
}

/// Since Envoy 1.40 the connections of a replaced filter chain follow `--drain-strategy`. With
/// `gradual` hardly any is asked to leave at the beginning of a drain time of ten minutes; before,
/// each one was.
async fn clients_of_a_replaced_filter_chain_leave_by_the_drain_strategy(lab: &Lab) -> Outcome {
    const FOLLOWS: Version = Version::new(1, 40, 0);
    for strategy in ["gradual", "immediate"] {
        let upstream = Upstream::start().await?;
        let (xds, port) = (Xds::new()?, free_port()?);
        let chain = |name: &str| {
            Listener::new("main", hcm(lab, "{}").with("/server_name", name.into())).port(port)
        };
        xds.write_listeners(&[chain("one")])?;
        let config = clusters(Bootstrap::new(), &upstream).listeners_from(&xds).build();
        let extra = vec!["--drain-strategy".into(), strategy.into()];
        let options = Options { drain_time_s: Some(600), extra, ..Options::default() };
        let envoy = Envoy::start(&lab.envoy, config, options).await?;
        let mut old = Client::connect(envoy.address("main").await?).await?;
        old.get("/echo").await?.expect(200)?;
        xds.replace_listeners(&envoy, &[chain("two")]).await?.accepted()?;
        let answer = old.get("/echo").await?.expect(200)?;
        let is_told = answer.header("connection").as_deref() == Some("close");
        let expected = strategy == "immediate" || lab.version < FOLLOWS;
        ensure_eq!(is_told, expected, "{strategy}: the client is asked to leave");
        ensure_eq!(counts(&envoy).await?, (0, 0), "{strategy}: in flight");
        ensure_eq!(envoy.stat(BEGUN).await?, Some(2), "{strategy}: begun");
    }
    Ok(())
}
