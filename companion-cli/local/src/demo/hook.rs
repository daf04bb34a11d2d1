//! Models of two usual stop hooks: a sleep, and a loop with netstat.

use std::time::Duration;

use super::agent::Agent;
use super::clock::Clock;
use super::times::Times;

pub(super) struct Hook<'a> {
    pub(super) name: &'static str,
    /// The time between two polls.
    period: Duration,
    /// The hook's last words if it ends after this time, or the thing that it waits for.
    poll: Box<dyn Fn(Duration) -> Result<&'static str, &'static str> + 'a>,
}

impl<'a> Hook<'a> {
    /// `sleep: {seconds: 6}`
    pub(super) fn sleep(times: &Times) -> Self {
        let time = times.sleep;
        let poll = move |passed| if passed < time { Err("it sleeps") } else { Ok("it has slept") };
        Self { name: "sleep", period: time, poll: Box::new(poll) }
    }

    /// `while [ $(netstat -plunt | grep tcp | grep -v envoy | wc -l) -ne 0 ]; do sleep 1; done`
    pub(super) fn netstat(agent: &'a Agent, times: &Times) -> Self {
        let poll = |_| {
            if agent.is_listening() {
                Err("pilot-agent still listens")
            } else {
                Ok("no listening socket is left but Envoy's")
            }
        };
        Self { name: "netstat … | grep -v envoy", period: times.poll, poll: Box::new(poll) }
    }

    /// Runs the hook until it ends, with its last words, or is cut: then the error is the thing
    /// that it still waited for.
    pub(super) fn run(&self, clock: &Clock, until: Duration) -> Result<&'static str, &'static str> {
        let began = clock.now();
        loop {
            let polled = (self.poll)(clock.now().saturating_sub(began));
            if polled.is_ok() || clock.now() >= until || clock.is_over() {
                return polled;
            }
            clock.pause(self.period.min(until.saturating_sub(clock.now())));
        }
    }
}
