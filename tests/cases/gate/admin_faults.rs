//! Envoy's admin interface is there and cannot be believed: slow, half, foreign, away. That is not
//! the same as an Envoy without its own count: nothing gets out before the deadline.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, sleep};

use super::bench::{Bench, SOON, gate_listener, options, same};
use super::watch::opens;
use crate::cases::stage::{clusters, hcm, routes};
use crate::lab::{Lab, cases};
use kit::admin_proxy::{AdminFault, AdminProxy, CallHandling};
use kit::prelude::*;

cases! {
    a_slow_admin_interface_opens_nothing => |lab| opens_nothing(lab, SLOW, "within 2000 ms"),
    an_empty_answer_opens_nothing => |lab| opens_nothing(lab, AdminFault::Empty, NOT_STATISTICS),
    a_foreign_answer_opens_nothing => |lab| opens_nothing(lab, AdminFault::Foreign, NOT_STATISTICS),
    half_an_answer_opens_nothing => |lab| opens_nothing(lab, AdminFault::Half, "broke off"),
    an_unavailable_admin_interface_opens_nothing => |lab| opens_nothing(lab, AWAY, "answered 503"),
    an_unknown_cluster_opens_nothing,
    a_drain_goes_on_when_envoy_answers_again,
}

/// The limit of a query is ten times as long as that of a call.
const GATE: &str = r#"{
    "quiet_ms": 300, "deadline_ms": 6000, "begin": {"call": "nothing"}, "admin": {"timeout_ms": 200}
}"#;
const DEADLINE: Duration = Duration::from_secs(6);
/// The largest difference between two clocks.
const NOISE: Duration = Duration::from_millis(100);
const SLOW: AdminFault = AdminFault::Slow(Duration::from_millis(2_500));
const AWAY: AdminFault = AdminFault::Unavailable(Duration::ZERO);
const NOT_STATISTICS: &str = "is not Envoy's statistics";
/// A word of the advice for an Envoy that does not export its own count.
const ANNOTATION: &str = "statsInclusionSuffixes";

/// What happens to the gate's calls of the admin interface.
#[derive(Default)]
struct Trouble {
    fault: Mutex<Option<AdminFault>>,
    quits: Mutex<Vec<Instant>>,
}

impl Trouble {
    fn quits(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.quits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, fault: Option<AdminFault>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Signals are counted, and Envoy never gets them.
    fn judge(&self, method: &str, path: &str) -> CallHandling {
        if path.starts_with("/quitquitquit") {
            self.quits().push(Instant::now());
            return CallHandling::Intercept;
        }
        let fault = *self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            Some(fault) if method == "GET" => CallHandling::Fault(fault),
            _ => CallHandling::Forward,
        }
    }
}

/// An Envoy whose listener `plain` has no filter: only Envoy itself counts its streams.
struct Trial {
    bench: Bench,
    plain: SocketAddr,
    trouble: Arc<Trouble>,
    _proxy: Option<AdminProxy>,
}

impl Trial {
    async fn set(lab: &Lab) -> Outcome<Self> {
        let trouble = Arc::<Trouble>::default();
        let judge = Arc::clone(&trouble);
        let plain = Listener::new("plain", routes(Hcm::new("plain"))).direction("INBOUND");
        let bootstrap = Bootstrap::new().listener(plain);
        let judge = move |method: &str, path: &str| judge.judge(method, path);
        let (bench, proxy) = Bench::proxied(bootstrap, lab, GATE, hcm(lab, "{}"), judge).await?;
        let plain = bench.envoy.address("plain").await?;
        Ok(Self { bench, plain, trouble, _proxy: Some(proxy) })
    }

    async fn without_cluster(lab: &Lab) -> Outcome<Self> {
        let upstream = Upstream::start().await?;
        let plain = Listener::new("plain", routes(Hcm::new("plain"))).direction("INBOUND");
        let bootstrap = clusters(Bootstrap::new(), &upstream)
            .listener(Listener::new("main", hcm(lab, "{}")).direction("INBOUND"))
            .listener(plain)
            .listener(gate_listener(lab, GATE));
        let bench = Bench::start(lab, upstream, bootstrap, options()).await?;
        let plain = bench.envoy.address("plain").await?;
        Ok(Self { bench, plain, trouble: Arc::default(), _proxy: None })
    }

    /// The gate holds up to its deadline, passes no quit signal before it, and says why.
    async fn opens_nothing(&self, words: &str) -> Outcome {
        let until = Instant::now() + SOON;
        loop {
            let refused = self.bench.post("/quitquitquit").await?.expect(503)?.json()?;
            match names_the_cluster(&refused["reason"], words) {
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => sleep(Duration::from_millis(50)).await,
                Ok(()) => break,
            }
        }
        let drain = Drain { began: Instant::now(), is_over: AtomicBool::new(false) };
        let hook = async {
            let answer = self.bench.get("/prestop?wait").await;
            drain.is_over.store(true, Ordering::SeqCst);
            same(&answer?.expect(200)?.json()?, "state", "expired")
        };
        tokio::try_join!(
            hook,
            self.is_refused(&drain, "GET", "/ready"),
            self.is_refused(&drain, "POST", "/quitquitquit"),
            self.says_why(&drain, words),
        )?;
        ensure!(drain.may_open(Instant::now()), "the hook's 200: {:?}", drain.began.elapsed());
        let early = self.trouble.quits().iter().filter(|at| !drain.may_open(**at)).count();
        ensure_eq!(early, 0, "quit signals that passed before the deadline");
        Ok(())
    }

    /// A request that is still held at the deadline may be answered with 200 then.
    async fn is_refused(&self, drain: &Drain, method: &str, path: &str) -> Outcome {
        while !drain.is_over() {
            let answer = once(self.bench.gate, &Request::new(method, path)).await?;
            ensure!(
                answer.status == 503 || drain.may_open(Instant::now()),
                "{method} {path}: {} {} after {:?}",
                answer.status,
                answer.text(),
                drain.began.elapsed()
            );
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Reason and advice name the cluster. No advice names the annotation, which would not help.
    async fn says_why(&self, drain: &Drain, words: &str) -> Outcome {
        let (mut named, mut last) = (0, Value::Null);
        while !drain.is_over() {
            last = self.bench.status().await?;
            ensure!(!last.to_string().contains(ANNOTATION), "advice: {last}");
            let is_named = |field: &str| names_the_cluster(&last[field], words).is_ok();
            named += u32::from(is_named("reason") && is_named("advice"));
            sleep(Duration::from_millis(50)).await;
        }
        ensure!(named > 0, "no reason with an advice has `{words}`: {last}");
        Ok(())
    }
}

/// A drain that nothing opens before its deadline.
struct Drain {
    /// A moment just before it began.
    began: Instant,
    is_over: AtomicBool,
}

impl Drain {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn may_open(&self, at: Instant) -> bool {
        at + NOISE >= self.began + DEADLINE
    }
}

fn names_the_cluster(text: &Value, words: &str) -> Outcome {
    let text = text.as_str().unwrap_or_default();
    ensure!(text.contains("cluster `") && text.contains(words), "{words} in {text:?}");
    Ok(())
}

/// The fault is there from the beginning, or comes after a first good answer; and only Envoy knows
/// a stream, or there is none.
async fn opens_nothing(lab: &Lab, fault: AdminFault, words: &str) -> Outcome {
    let trial = async |is_late: bool, has_stream: bool| {
        let trial = Trial::set(lab).await?;
        if is_late {
            trial.bench.until("count", "exact").await?;
        }
        trial.trouble.set(Some(fault));
        let held =
            if has_stream { Some(trial.bench.held_at(trial.plain, "a").await?) } else { None };
        trial.opens_nothing(words).await?;
        if let Some(mut client) = held {
            trial.bench.release("a", &mut client).await?;
        }
        Outcome::Ok(())
    };
    let name = |is_late: bool, has_stream: bool| {
        format!("{fault:?}, after a good answer: {is_late}, with a stream: {has_stream}")
    };
    let named = async |is_late, has_stream| {
        trial(is_late, has_stream).await.with_context(|| name(is_late, has_stream))
    };
    tokio::try_join!(
        named(false, false),
        named(false, true),
        named(true, false),
        named(true, true)
    )?;
    Ok(())
}

async fn an_unknown_cluster_opens_nothing(lab: &Lab) -> Outcome {
    let words = "Envoy has no cluster `prometheus_stats`";
    let with_stream = async {
        let trial = Trial::without_cluster(lab).await?;
        let mut client = trial.bench.held_at(trial.plain, "a").await?;
        trial.opens_nothing(words).await?;
        trial.bench.release("a", &mut client).await
    };
    let without = async { Trial::without_cluster(lab).await?.opens_nothing(words).await };
    tokio::try_join!(with_stream, without)?;
    Ok(())
}

/// A fault that comes and goes in a drain costs no more than the pause between two queries.
async fn a_drain_goes_on_when_envoy_answers_again(lab: &Lab) -> Outcome {
    let gate = GATE.replace("6000", "90000");
    let goes_on = async |fault| {
        let trouble = Arc::<Trouble>::default();
        let judge = Arc::clone(&trouble);
        let judge = move |method: &str, path: &str| judge.judge(method, path);
        let main = hcm(lab, "{}");
        let (bench, _proxy) = Bench::proxied(Bootstrap::new(), lab, &gate, main, judge).await?;
        bench.until("count", "exact").await?;
        trouble.set(Some(fault));
        for _ in 0..6 {
            bench.get("/prestop?wait=500ms").await?.expect(503)?;
        }
        trouble.set(None);
        let began = Instant::now();
        opens(&bench).await.with_context(|| format!("after {fault:?}"))?;
        say(&format!("{fault:?}: open {:?} after the first good answer", began.elapsed()));
        bench.until("count", "exact").await.map(drop)
    };
    tokio::try_join!(
        goes_on(SLOW),
        goes_on(AdminFault::Empty),
        goes_on(AdminFault::Foreign),
        goes_on(AdminFault::Half),
        goes_on(AWAY)
    )?;
    Ok(())
}
