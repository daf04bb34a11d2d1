//! The stage of a case: a namespace, an upstream as the app, and a gateway or a sidecar in front of
//! it.

use tokio::task::block_in_place;
use tokio::time::sleep;

use super::world::World;
use crate::agent::{Agent, Proxy};
use crate::objects::{Given, objects, render_all};
use kit::command::CommandOutput;
use kit::prelude::*;
use kit::user::User;
use kit::wire::{free_port, local};

/// Long enough for a false zero to show: the gate's quiet period is a second.
pub(crate) const LONGER_THAN_QUIET: Duration = Duration::from_millis(2500);

/// The gateway's gauge and counter, as Envoy calls them.
pub(crate) const IN_FLIGHT: &str = "wasmcustom.laststream_streams_in_flight_gateway";
pub(crate) const BEGUN: &str = "wasmcustom.laststream_streams_begun_gateway_total";

/// As many connections meet each of two workers, but for once in a billion.
const CONNECTIONS: u64 = 32;

/// The annotation that `render proxy-config` writes for every gate: it exports Envoy's own count,
/// the second witness.
pub(crate) const WITNESS: (&str, &str) = (
    "sidecar.istio.io/statsInclusionSuffixes",
    "downstream_rq_active,downstream_rq_total,downstream_cx_tx_bytes_buffered,\
     downstream_cx_http3_active",
);

pub(crate) struct Stage {
    pub(crate) world: &'static World,
    /// The case's namespace, which is also the name of most of its objects.
    pub(crate) name: &'static str,
    /// The value of the label that selects its proxy.
    pub(crate) selector: &'static str,
    pub(crate) upstream: Upstream,
    pub(crate) user: User,
    /// The token of the service account, which has the case's name.
    pub(crate) token: String,
    /// The port on which the proxy listens for requests.
    pub(crate) port: u16,
    /// The port of its gate.
    pub(crate) gate: u16,
}

impl Stage {
    pub(crate) async fn new(name: &'static str) -> Outcome<Self> {
        let world = World::get().await?;
        let cluster = &world.cluster;
        cluster.injected_namespace(name).await?;
        cluster.run(&["create", "serviceaccount", "--namespace", name, name]).await?;
        let create = ["create", "token", "--namespace", name, name, "--audience", "istio-ca"];
        let token = cluster.run(&create).await?.trim().to_owned();
        let (port, gate) = (free_port()?, free_port()?);
        Ok(Self {
            world,
            name,
            selector: name,
            upstream: Upstream::start().await?,
            user: User::new()?,
            token,
            port,
            gate,
        })
    }

    pub(crate) async fn apply(&self, objects: &[Value]) -> Outcome {
        self.world.cluster.apply_all(objects).await
    }

    /// The pod of the case's proxy, from which istiod takes the labels. It does not run.
    pub(crate) fn pod(&self, label: &str) -> Value {
        let metadata = json!({
            "name": self.name, "namespace": self.name, "labels": { label: self.selector },
        });
        let spec = json!({
            "serviceAccountName": self.name,
            "containers": [{ "name": "app", "image": "example.com/none" }],
        });
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
    }

    /// The pod that the API server and Istio's webhook would make of a template.
    pub(crate) async fn made(&self, template: &Value) -> Outcome<Value> {
        let mut pod = template.clone();
        (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
        (pod["metadata"]["name"], pod["metadata"]["namespace"]) = (json!("made"), json!(self.name));
        let arguments = ["create", "--dry-run=server", "--output", "json", "-f", "-"];
        self.world.cluster.kubectl_with(&arguments, &pod.to_string()).await?.expect(0)?.json()
    }

    /// A gateway for all hosts, with the upstream behind it.
    pub(crate) fn gateway_objects(&self) -> Outcome<Vec<Value>> {
        let app = self.upstream.h1().port();
        let (name, selector, port) = (&self.name, &self.selector, &self.port);
        let given: &[Given<'_>] =
            &[("name", name), ("selector", selector), ("port", port), ("app", &app)];
        objects(include_str!("objects/gateway.yaml"), given)
    }

    /// A sidecar without captured ports, which listens for calls of the app on `out`.
    pub(crate) fn sidecar_objects(&self, out: u16) -> Outcome<Vec<Value>> {
        let app = self.upstream.h1().port();
        objects(
            include_str!("objects/sidecar.yaml"),
            &[("name", &self.name), ("port", &self.port), ("app", &app), ("out", &out)],
        )
    }

    /// The output of `laststream render` for this policy; the arguments begin with the kind.
    pub(crate) fn render(&self, arguments: &[&str], policy: &str) -> Outcome<String> {
        let file = self.user.argument("policy.yaml", policy)?;
        let arguments = [&["render"], arguments, &["--policy", &file]].concat();
        Ok(self.laststream(&arguments, "")?.expect(0)?.stdout)
    }

    pub(crate) fn laststream(&self, arguments: &[&str], input: &str) -> Outcome<CommandOutput> {
        block_in_place(|| self.user.run(arguments, input))
    }

    /// A policy for the case's gateway; `more` is added to it.
    pub(crate) fn gateway_policy(&self, more: &str) -> String {
        let (name, gate, module) = (self.name, self.gate, &self.world.module);
        format!(
            "namespace: {name}\nplacement: {{gateway: {{selector: {{istio: {name}}}}}}}\n\
             module: {module}\ngate: {{port: {gate}}}\n{more}"
        )
    }

    /// A policy for the case's sidecar; `more` is added to it.
    pub(crate) fn sidecar_policy(&self, more: &str) -> String {
        let (name, gate, module) = (self.name, self.gate, &self.world.module);
        format!(
            "namespace: {name}\nplacement: {{sidecar: {{selector: {{app: {name}}}}}}}\n\
             module: {module}\ngate: {{port: {gate}}}\n{more}"
        )
    }

    /// Runs `laststream render all`, and returns the folder of the files.
    pub(crate) fn render_all(&self, policy: &str) -> Outcome<String> {
        block_in_place(|| render_all(&self.user, "rendered", policy, &[]))
    }

    /// Runs `laststream render envoyfilter | kubectl apply -f -`.
    pub(crate) async fn put(&self, policy: &str) -> Outcome<String> {
        let rendered = self.render(&["envoyfilter"], policy)?;
        self.world.cluster.apply(&rendered).await?;
        Ok(rendered)
    }

    /// The gateway's proxy.
    pub(crate) async fn gateway(&self, annotations: &[(&str, &str)]) -> Outcome<Agent> {
        let labels = &[("istio", self.name)];
        self.proxy(&Proxy { labels, annotations, ..Proxy::default() }).await
    }

    /// The sidecar's proxy.
    pub(crate) async fn sidecar(&self) -> Outcome<Agent> {
        let labels = &[("app", self.name)];
        self.proxy(&Proxy { labels, sidecar: true, ..Proxy::default() }).await
    }

    /// A proxy with the case's name and these special fields.
    pub(crate) async fn proxy(&self, special: &Proxy<'_>) -> Outcome<Agent> {
        let registry = self.world.registry.name();
        let registry = if special.registry.is_empty() { &registry } else { special.registry };
        let proxy = Proxy {
            name: self.name,
            namespace: self.name,
            token: &self.token,
            registry,
            ..*special
        };
        Agent::start(&self.world.istio, &proxy).await
    }

    pub(crate) fn address(&self) -> SocketAddr {
        local(self.port)
    }

    /// Sends a request through the proxy.
    pub(crate) async fn get(&self, path: &str) -> Outcome<Response> {
        once(self.address(), &Request::get(path)).await
    }

    /// Waits until the proxy answers with this status.
    pub(crate) async fn answers(&self, status: u16) -> Outcome {
        wait_for(PATIENCE, "the proxy", async || self.get("/").await?.expect(status).map(drop))
            .await
    }

    /// Sends a request on each of so many connections that every worker gets some, and returns how
    /// many of them the counter of this name has counted.
    pub(crate) async fn counted(
        &self,
        agent: &Agent,
        counter: &str,
        request: &Request,
    ) -> Outcome<u64> {
        let before = agent.stat(counter).await?.unwrap_or_default();
        for _ in 0..CONNECTIONS {
            once(self.address(), request).await?;
        }
        Ok(agent.stat(counter).await?.unwrap_or_default() - before)
    }

    /// Waits until every worker counts, by the counter of this name, and returns its value. A proxy
    /// may start with what istiod had before the last push.
    pub(crate) async fn counted_by_all(&self, agent: &Agent, counter: &str) -> Outcome<u64> {
        wait_for(PATIENCE, counter, async || {
            let counted = self.counted(agent, counter, &Request::get("/")).await?;
            ensure_eq!(counted, CONNECTIONS, "requests that are counted");
            agent.stat(counter).await?.context("no counter")
        })
        .await
    }

    /// Sends more requests that the upstream holds, each on a separate connection.
    pub(crate) async fn hold(&self, held: &mut Vec<Client>, more: usize) -> Outcome {
        for _ in 0..more {
            let mut client = Client::connect(self.address()).await?;
            client.send(&Request::get("/hold/all").bytes()).await?;
            held.push(client);
        }
        self.upstream.wait_held("all", held.len(), PATIENCE).await
    }

    /// Requests that the upstream holds.
    pub(crate) async fn held(&self, count: usize) -> Outcome<Vec<Client>> {
        let mut held = Vec::new();
        self.hold(&mut held, count).await?;
        Ok(held)
    }

    /// Lets the upstream answer the requests, and checks that each gets 200.
    pub(crate) async fn answered(&self, held: Vec<Client>) -> Outcome {
        self.upstream.release("all");
        for mut client in held {
            client.response("GET").await?.expect(200)?;
        }
        self.upstream.wait_held("all", 0, PATIENCE).await
    }

    /// The gate's answer, which must have this status.
    pub(crate) async fn ask_gate(&self, request: Request, status: u16) -> Outcome<Response> {
        once(local(self.gate), &request.host("localhost")).await?.expect(status)
    }

    /// Begins a drain by `POST /drain`.
    pub(crate) async fn drain(&self) -> Outcome {
        self.ask_gate(Request::post("/drain", ""), 202).await.map(drop)
    }

    /// Begins a drain, which must go on for this time, and returns the gate's status after it.
    pub(crate) async fn held_drain(&self, time: Duration) -> Outcome<Value> {
        self.drain().await?;
        sleep(time).await;
        let status = self.status().await?;
        ensure_eq!(status["state"], "draining", "{status}");
        Ok(status)
    }

    /// The gate's answer to `GET /status`.
    pub(crate) async fn status(&self) -> Outcome<Value> {
        self.ask_gate(Request::get("/status"), 200).await?.json()
    }

    /// Waits until the gate's status has this value in this field.
    pub(crate) async fn status_with(&self, field: &str, value: &str) -> Outcome<Value> {
        self.status_with_all(&[(field, value)]).await
    }

    /// Waits until the gate is drained with an exact count.
    pub(crate) async fn drained(&self) -> Outcome<Value> {
        self.status_with_all(&[("state", "drained"), ("count", "exact")]).await
    }

    async fn status_with_all(&self, wanted: &[(&str, &str)]) -> Outcome<Value> {
        let look = async || {
            let status = self.status().await?;
            for (field, value) in wanted {
                ensure_eq!(status[field], *value, "{field} in {status}");
            }
            Ok(status)
        };
        wait_for(PATIENCE, "the gate's status", look).await
    }

    fn refusals(&self) -> Vec<String> {
        self.world.istio.refusals(&format!("{0}.{0}", self.name))
    }

    /// Waits until the proxy refuses something that istiod sent.
    pub(crate) async fn refusal(&self) -> Outcome<String> {
        let look = async || self.refusals().into_iter().next().context("nothing refused yet");
        wait_for(PATIENCE, "a refusal", look).await
    }

    /// Checks that the proxy refused nothing that istiod sent.
    pub(crate) fn nothing_refused(&self) -> Outcome {
        let refusals = self.refusals();
        ensure!(refusals.is_empty(), "refused by the proxy: {refusals:#?}");
        Ok(())
    }
}

/// The item of this name in a list, such as a container.
pub(crate) fn named<'l>(list: &'l Value, name: &str) -> Outcome<&'l Value> {
    let mut items = list.as_array().into_iter().flatten();
    items.find(|item| item["name"] == name).with_context(|| format!("no `{name}` in {list}"))
}

/// A metric as Prometheus reads it.
pub(crate) fn metric(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))?;
    line.rsplit(' ').next()?.parse().ok()
}
