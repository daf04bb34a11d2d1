//! The agent's port at random, beside requests that come and go: no Envoy ends while its agent
//! answers, or with a request in flight. `LASTSTREAM_ADVERSARY_SEED` and
//! `LASTSTREAM_ADVERSARY_STEPS` are those of the adversary.

use fastrand::Rng;
use tokio::time::{Instant, sleep};

use super::agent::{Agent, Port, counting};
use super::bench::Bench;
use crate::lab::{Case, LIMIT, Lab, case, number};
use kit::prelude::*;

/// Most of a minute.
const STEPS: u64 = 60;

pub(in crate::cases) fn cases() -> Vec<Case> {
    vec![case!(no_envoy_ends_while_its_agent_answers, limit())]
}

fn limit() -> Duration {
    LIMIT + Duration::from_secs(number("LASTSTREAM_ADVERSARY_STEPS", STEPS).unwrap_or(STEPS))
}

async fn no_envoy_ends_while_its_agent_answers(lab: &Lab) -> Outcome {
    let seed = number("LASTSTREAM_ADVERSARY_SEED", 1)?;
    let steps = number("LASTSTREAM_ADVERSARY_STEPS", STEPS)?;
    let mut rng = Rng::with_seed(seed);
    let (mut played, mut ended, mut answered) = (0, 0, 0);
    while played < steps {
        let count = if rng.bool() { "filter" } else { "envoy" };
        let mut play = Play::new(counting(lab, count).await?);
        while played < steps {
            played += 1;
            let step = play.step(&mut rng).await;
            if step.with_context(|| format!("seed {seed}, step {played}, counted by {count}"))? {
                ended += 1;
                break;
            }
        }
        answered += play.answered;
    }
    say(&format!("{played} steps, {answered} held requests answered, {ended} Envoys ended"));
    ensure!(ended > 0 && answered > 0, "this shows nothing");
    Ok(())
}

struct Play {
    bench: Bench,
    agent: Agent,
    held: Option<Client>,
    port: Port,
    /// When the port closed, if it ever did.
    closed: Option<Instant>,
    /// Until when it was closed.
    closed_until: Option<Instant>,
    /// The longest time for which it was closed at once.
    longest: Duration,
    answered: u64,
}

/// The least time of refusals before a drain.
const LEAST: Duration = Duration::from_millis(460);
/// How old the last refusal may be when Envoy ends, with the time until the test sees that.
const REFUSED_WITHIN: Duration = Duration::from_millis(2_500 + 1_500);

impl Play {
    fn new((bench, agent): (Bench, Agent)) -> Self {
        let (port, longest) = (Port::Answers, Duration::ZERO);
        let (held, closed, closed_until) = (None, None, None);
        Self { bench, agent, held, port, closed, closed_until, longest, answered: 0 }
    }

    /// Plays one state of the port, and returns whether Envoy has ended, rightly.
    async fn step(&mut self, rng: &mut Rng) -> Outcome<bool> {
        let port = match rng.u8(0..20) {
            0..8 => Port::Answers,
            8..10 => Port::Foreign,
            10..12 => Port::Hangs,
            _ => Port::Closed,
        };
        if port == Port::Closed && self.port != port {
            self.closed = Some(Instant::now());
        }
        self.agent.becomes(port);
        self.port = port;
        let longest = if port == Port::Closed { 2_000 } else { 700 };
        sleep(Duration::from_millis(rng.u64(0..longest))).await;
        let has_ended = !self.bench.envoy.is_alive();
        if let Some(closed) = self.closed.filter(|_| port == Port::Closed) {
            self.closed_until = Some(Instant::now());
            self.longest = self.longest.max(closed.elapsed());
        }
        if has_ended {
            return self.may_end().map(|()| true);
        }
        match self.held.take() {
            Some(mut client) if rng.bool() => {
                self.bench.release("stream", &mut client).await?;
                self.answered += 1;
            }
            None if rng.bool() => self.held = self.hold().await?,
            held => self.held = held,
        }
        Ok(false)
    }

    /// A request that waits at the app; none if Envoy refuses it or ends first.
    async fn hold(&mut self) -> Outcome<Option<Client>> {
        let request = Request::get("/hold/stream");
        let Ok(client) = Client::with_request(self.bench.main, &request).await else {
            return Ok(None);
        };
        let deadline = Instant::now() + Duration::from_secs(1);
        while self.bench.upstream.held("stream") == 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(5)).await;
        }
        Ok(Some(client).filter(|_| self.bench.upstream.held("stream") > 0))
    }

    /// Whether Envoy may have ended by now.
    fn may_end(&self) -> Outcome {
        ensure!(self.held.is_none(), "Envoy has ended with a request in flight");
        let until = self.closed_until.context("Envoy has ended, its agent was never away")?;
        ensure!(
            until.elapsed() < REFUSED_WITHIN,
            "the port was last closed {:?} ago",
            until.elapsed()
        );
        ensure!(self.longest >= LEAST, "the port was closed for {:?} at most", self.longest);
        Ok(())
    }
}
