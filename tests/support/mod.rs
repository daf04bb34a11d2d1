//! What the cases stand on: Envoy processes, an upstream that misbehaves on demand, clients for
//! every protocol.
//!
//! A case is an async function; its trial runs it with a deadline:
//!
//! ```ignore
//! fn counts_one_request(binary: &Path) -> Outcome {
//!     block_on(Duration::from_secs(60), async {
//!         let upstream = Upstream::start().await?;
//!         let hcm = Hcm::new("main").filter(wasm.filter()).route(Route::prefix("/").cluster("app").timeout("0s"));
//!         let config = Bootstrap::new().cluster(cluster::h1("app", upstream.h1())).listener(Listener::new("main", hcm)).build();
//!         let envoy = Envoy::start(binary, config, Options::default()).await?;
//!         let mut client = h1::Client::connect(envoy.address("main").await?).await?;
//!         client.send(&Request::get("/hold/a").bytes()).await?;
//!         upstream.wait_held("a", 1, SOON).await?;
//!         envoy.wait_for_stat("http.main.downstream_rq_active", |value| value == Some(1), SOON).await?;
//!         upstream.release("a");
//!         client.response("GET").await?.expect(200)?;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! Dropping ends everything: Envoy, the upstream, the connections. A failing trial prints the end
//! of its Envoys' logs by itself.

#![allow(dead_code, reason = "a toolbox: a set of cases need not use every tool")]

pub(crate) mod admin_cluster;
pub(crate) mod admin_proxy;
pub(crate) mod bootstrap;
pub(crate) mod certificates;
pub(crate) mod clock;
pub(crate) mod command_line;
pub(crate) mod envoy;
pub(crate) mod failure;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod h2_raw;
pub(crate) mod h3;
pub(crate) mod load;
pub(crate) mod openapi;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod registry;
pub(crate) mod self_check;
pub(crate) mod trial;
pub(crate) mod upstream;
pub(crate) mod websocket;
pub(crate) mod wire;
pub(crate) mod xds;
