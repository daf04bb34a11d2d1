//! The composite filter on Envoys that do not have its matcher, and broken chains around it.

use laststream_policy::file::Engine;

use super::engines::{self, FIRST_WITH_COMPOSITE, Place};
use crate::lab::Lab;
use kit::bootstrap::extension;
use kit::forwarded_proto::client::redirected;
use kit::forwarded_proto::listeners::Form;
use kit::h1::Connect;
use kit::prelude::*;

const PROTO: &str = "x-forwarded-proto";
const POLICY: &str =
    r#"{"forwarded_proto": {"presets": ["aws_alb"], "trust": {"peers": ["127.0.0.2"]}}}"#;
const TRUSTED: [u8; 4] = [127, 0, 0, 2];
const STRANGER: [u8; 4] = [127, 0, 0, 1];
/// Envoys of this version accept the matcher, and no request becomes https.
const IGNORES_THE_MATCHER: &str = "1.38.";
/// The filters that write https and have the route chosen again.
const CHAIN: &str = "/typed_config/matcher/matcher_list/matchers/0/on_match/action/typed_config/\
    filter_chain/typed_config";

/// The reason for `proxyVersion` in rendered patches.
pub(super) async fn an_older_envoy_ignores_the_matcher_or_refuses_it(lab: &Lab) -> Outcome {
    if lab.version >= FIRST_WITH_COMPOSITE {
        return Ok(());
    }
    let gateway = Gateway::start(lab, Broken::Nothing.form()?).await;
    if lab.version.to_string().starts_with(IGNORES_THE_MATCHER) {
        ensure_eq!(gateway?.get(TRUSTED).await?, HTTP, "a request that came over https");
        return Ok(());
    }
    let Err(refused) = gateway else { bail!("Envoy takes a field that it does not know") };
    let told = format!("{refused:#}");
    ensure!(told.contains("'matcher'"), "the refusal does not name the field: {told}");
    Ok(())
}

pub(super) async fn broken_chains_make_no_stranger_https(lab: &Lab) -> Outcome {
    if lab.version < FIRST_WITH_COMPOSITE {
        return Ok(());
    }
    for (broken, expected) in [
        (Broken::Nothing, HTTPS),
        (Broken::NoFilter, HTTP),
        (Broken::NoWrite, HTTP),
        (Broken::NoClear, LOOP),
        (Broken::ClearFirst, HTTPS),
        (Broken::NoEarlyMutation, HTTPS),
        (Broken::CompositeInFront, HTTPS),
        (Broken::CompositeBehind, HTTPS),
        (Broken::RbacInFront, HTTPS),
    ] {
        let told = format!("{broken:?}");
        let gateway = Gateway::start(lab, broken.form()?).await.context(told.clone())?;
        ensure_eq!(gateway.get(STRANGER).await?, HTTP, "a stranger, {told}");
        ensure_eq!(gateway.get(TRUSTED).await?, expected, "a trusted peer, {told}");
    }
    Ok(())
}

/// A fault in the chain, or another filter beside it.
#[derive(Clone, Copy, Debug)]
enum Broken {
    Nothing,
    NoFilter,
    NoWrite,
    NoClear,
    ClearFirst,
    NoEarlyMutation,
    CompositeInFront,
    CompositeBehind,
    RbacInFront,
}

impl Broken {
    fn form(self) -> Outcome<Form> {
        let form = engines::native(POLICY, Engine::Composite, Place::Gateway)?;
        let mut form = form.map_err(Error::msg)?;
        let chain = form.filters.first_mut().and_then(|filter| filter.pointer_mut(CHAIN));
        let chain = chain.and_then(Value::as_array_mut).context("no chain of filters")?;
        ensure_eq!(chain.len(), 2, "filters of the action");
        match self {
            Self::Nothing => {}
            Self::NoFilter => form.filters.clear(),
            Self::NoWrite => drop(chain.remove(0)),
            Self::NoClear => drop(chain.remove(1)),
            Self::ClearFirst => chain.reverse(),
            Self::NoEarlyMutation => form.early = None,
            Self::CompositeInFront => form.filters.insert(0, other_composite()),
            Self::CompositeBehind => form.filters.push(other_composite()),
            Self::RbacInFront => form.filters.insert(0, dry_run()),
        }
        Ok(form)
    }
}

/// A composite filter of another owner, which writes a header of its own for every request.
fn other_composite() -> Value {
    const PACKAGE: &str = "envoy.extensions.filters.http.composite.v3";
    let append = json!({ "header": { "key": "x-other", "value": "https" } });
    let writes = filters::header_mutation(json!([{ "append": append }]));
    let chain = json!({ "filter_chain": { "typed_config": [writes] } });
    let action = extension("https", &format!("{PACKAGE}.ExecuteFilterAction"), chain);
    let config = json!({ "matcher": { "on_no_match": { "action": action } } });
    extension("other", &format!("{PACKAGE}.Composite"), config)
}

/// Istio's dry run of an AuthorizationPolicy.
fn dry_run() -> Value {
    let any = json!({ "permissions": [{ "any": true }], "principals": [{ "any": true }] });
    let config = json!({
        "shadow_rules": { "policies": { "https": any } },
        "shadow_rules_stat_prefix": "istio_dry_run_allow_",
    });
    extension("envoy.filters.http.rbac", "envoy.extensions.filters.http.rbac.v3.RBAC", config)
}

/// What becomes of a request whose headers say https.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// The app sees https in the header.
    is_https: bool,
    /// A listener for https only redirects the client.
    is_redirected: bool,
}

const HTTP: Seen = Seen { is_https: false, is_redirected: true };
const HTTPS: Seen = Seen { is_https: true, is_redirected: false };
/// Envoy redirects the client for ever.
const LOOP: Seen = Seen { is_https: true, is_redirected: true };

struct Gateway {
    envoy: Envoy,
    upstream: Upstream,
}

impl Gateway {
    async fn start(lab: &Lab, form: Form) -> Outcome<Self> {
        let upstream = Upstream::start().await?;
        let listener = |name: &str, require_tls: &str| {
            let hcm = Hcm::new(name)
                .use_remote_address(true, 0)
                .route(Route::prefix("/").cluster("app"))
                .require_tls(require_tls);
            let hcm = form.early.iter().cloned().fold(hcm, Hcm::early_mutations);
            Listener::new(name, form.filters.iter().cloned().fold(hcm, Hcm::filter))
        };
        let bootstrap = Bootstrap::new()
            .cluster(cluster::h1("app", upstream.h1()))
            .listener(listener("main", "NONE"))
            .listener(listener("strict", "ALL"));
        let envoy = Envoy::start(&lab.envoy, bootstrap.build(), Options::default()).await?;
        Ok(Self { envoy, upstream })
    }

    /// Every header of this peer's request says https, also the forged copy of the saved one.
    async fn get(&self, from: [u8; 4]) -> Outcome<Seen> {
        let request = Request::get("/")
            .header(PROTO, "https")
            .header("x-laststream-forwarded-proto", "https")
            .header("x-forwarded-port", "443");
        let main = Connect::to(self.envoy.address("main").await?).from(from.into());
        main.open().await?.request(&request).await?.expect(200)?;
        let header = self.upstream.last()?.header(PROTO);
        let strict = Connect::to(self.envoy.address("strict").await?).from(from.into());
        let answer = strict.open().await?.request(&request).await?;
        let is_https = match header.as_deref() {
            Some("https") => true,
            Some("http") => false,
            other => bail!("{PROTO} is {other:?}"),
        };
        Ok(Seen { is_https, is_redirected: redirected(&answer)? })
    }
}
