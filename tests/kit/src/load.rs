//! A mixed load: every kind of operation that begins, ends or breaks a stream, in an order that the
//! seed decides.
//!
//! ```ignore
//! let authority = Authority::new()?;
//! let hcm = |prefix: &str| bed::routes(Hcm::new(prefix).filter(wasm.filter()));
//! let config = bed::bootstrap(&upstream, hcm("load"), hcm("load3"), &authority)?.build();
//! let envoy = Envoy::start(binary, config, Options::default()).await?;
//! load::run(20_000, 32, 7, bed::targets(&envoy, &authority).await?).await?;
//! ```

mod aborts;
pub mod bed;
mod faults;
mod http1;
mod http2;
mod http3;
mod tunnels;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::h1::Ended;
use crate::wait::join_all;
use crate::{Error, Outcome, ensure};

/// The time limit of an operation: for hangs, not for slow machines.
const LIMIT: Duration = Duration::from_secs(300);
/// An error lists no more failures than this.
const LISTED: usize = 20;

/// The addresses that the operations connect to.
pub struct Targets {
    /// HTTP/1 and HTTP/2.
    pub tcp: SocketAddr,
    /// HTTP/3.
    pub quic: SocketAddr,
    pub tls: Arc<rustls::ClientConfig>,
}

/// The id of one operation, unique in its run, and its random numbers, which are the same for the
/// same seed.
struct Turn {
    id: String,
    rng: fastrand::Rng,
}

impl Turn {
    /// Waits a short random time, so that the next action comes at different moments.
    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.rng.u64(0..12))).await;
    }
}

type Run = for<'a> fn(&'a Targets, Turn) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// A kind of operation.
struct Kind {
    name: &'static str,
    weight: usize,
    run: Run,
}

macro_rules! kinds {
    ($($weight:literal x $file:ident::$name:ident $(($($with:expr),*))?,)*) => {
        &[$(Kind {
            name: concat!(
                stringify!($file), "::", stringify!($name), $(stringify!(($($with),*)))?
            ),
            weight: $weight,
            run: |targets, turn| Box::pin($file::$name(targets, turn $(, $($with),*)?)),
        }),*]
    };
}

/// The weight of each kind, and the further arguments of its function.
const KINDS: &[Kind] = kinds![
    14 x http1::keep_alive,
    6 x http1::pipelined,
    5 x http1::head,
    5 x http1::chunked_post,
    3 x http1::expect_continue,
    3 x faults::answered("/direct", &[200]),
    3 x faults::answered("/to-https/x", &[301]),
    3 x faults::answered("/followed/up/bytes/77", &[200]),
    3 x faults::answered("/nowhere", &[404]),
    3 x http1::http_1_0,
    2 x http1::bad_request,
    2 x http1::header_too_large,
    2 x http1::missing_host,
    2 x http1::answered_before_the_body,
    2 x aborts::after_continue,
    2 x aborts::in_head(Ended::Fin),
    2 x aborts::in_head(Ended::Reset),
    2 x aborts::in_request_body,
    3 x aborts::waiting(Ended::Fin),
    3 x aborts::waiting(Ended::Reset),
    3 x aborts::in_body(Ended::Fin),
    3 x aborts::in_body(Ended::Reset),
    1 x aborts::in_download,
    2 x faults::answered("/up/reset", &[503]),
    2 x faults::answered("/up/close", &[503]),
    2 x faults::answered("/up/garbage", &[502, 503]),
    2 x faults::upstream_midbody_reset,
    2 x faults::answered("/refused/x", &[503]),
    3 x faults::retried,
    2 x faults::answered("/slow/20000", &[504]),
    1 x faults::answered("/up2/reset", &[503]),
    // On a separate cluster: every stream that shares the connection fails with it.
    1 x faults::answered("/lost2/close", &[503]),
    3 x tunnels::websocket_closed,
    3 x tunnels::websocket_aborted,
    1 x tunnels::websocket_over_http2,
    2 x tunnels::connect_closed,
    2 x tunnels::connect_aborted,
    6 x http2::multiplexed_with_resets,
    2 x http2::go_away_when_done,
    2 x http2::lost(Ended::Fin),
    2 x http2::lost(Ended::Reset),
    3 x http2::grpc_stream,
    2 x http2::reset_at_once,
    3 x http3::streams,
    1 x http3::stream_reset,
    1 x http3::connection_closed,
];

/// Runs this number of operations, `parallel` at a time. Fails with those whose outcome is
/// unexpected.
pub async fn run(operations: usize, parallel: usize, seed: u64, targets: Targets) -> Outcome {
    let (plan, next, targets) =
        (Arc::new(plan(operations, seed)), Arc::new(AtomicUsize::new(0)), Arc::new(targets));
    let mut workers: JoinSet<Outcome<Vec<String>>> = JoinSet::new();
    for _ in 0..parallel {
        let (plan, next, targets) = (Arc::clone(&plan), Arc::clone(&next), Arc::clone(&targets));
        workers.spawn(async move {
            let mut errors = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(kind) = plan.get(index) else { return Ok(errors) };
                if let Err(error) = one(kind, &targets, index, seed).await {
                    errors.push(format!("- {}: {error:#}", kind.name));
                }
            }
        });
    }
    let mut errors = join_all(workers).await?.concat();
    let count = errors.len();
    errors.truncate(LISTED);
    ensure!(count == 0, "{count} of {operations} operations failed:\n{}", errors.join("\n"));
    Ok(())
}

async fn one(kind: &Kind, targets: &Targets, index: usize, seed: u64) -> Outcome {
    let rng = fastrand::Rng::with_seed(seed ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let turn = Turn { id: format!("{seed}-{index}"), rng };
    let late = |_| Err(Error::msg(format!("not done within {LIMIT:?}")));
    timeout(LIMIT, (kind.run)(targets, turn)).await.unwrap_or_else(late)
}

/// Each kind once while there is room, the rest by weight; shuffled.
fn plan(operations: usize, seed: u64) -> Vec<&'static Kind> {
    let total: usize = KINDS.iter().map(|kind| kind.weight).sum();
    let spare = operations.saturating_sub(KINDS.len());
    let by_weight =
        KINDS.iter().flat_map(|kind| std::iter::repeat_n(kind, kind.weight * spare / total));
    let mut plan: Vec<&Kind> =
        KINDS.iter().chain(by_weight).chain(KINDS.iter().cycle()).take(operations).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut plan);
    plan
}
