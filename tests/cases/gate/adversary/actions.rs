//! The adversary's actions, and their weights.

use tokio::time::{Instant, sleep};

use super::admin::FAULTS;
use super::invariants::{cancelled, last_call, lets_all_go, opened, passed, plausible};
use super::streams::Kind;
use super::world::{GATES, World};

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Begin,
    Finish,
    FinishAll,
    Abort,
    Prestop,
    Ready,
    Drain,
    Reset,
    Force,
    Status,
    DrainListeners,
    /// Streams begin and a signal is sent, again and again.
    Rush,
    /// Only while a client waits, because a signal that passes would end the round.
    Quit,
    Reload,
    ReplaceMain,
    KillWorker,
    KillGate,
    StepClock,
    /// A stream begins at whose beginning or end its worker stands still.
    Stall,
    /// The admin interface is slow, half, foreign or away for a while.
    Trouble,
    /// A browser asks for something that changes the state.
    Browse,
    Pause,
}

use Action::{
    Abort, Begin, Browse, Drain, DrainListeners, Finish, FinishAll, Force, KillGate, KillWorker,
    Pause, Prestop, Quit, Ready, Reload, ReplaceMain, Reset, Rush, Stall, Status, StepClock,
    Trouble,
};
use kit::prelude::*;

const WEIGHTS: [(Action, u32); 22] = [
    (Begin, 30),
    (Finish, 22),
    (FinishAll, 12),
    (Abort, 4),
    (Prestop, 20),
    (Ready, 8),
    (Drain, 2),
    (Reset, 5),
    (Force, 1),
    (Status, 5),
    (DrainListeners, 8),
    (Rush, 3),
    (Quit, 5),
    (Reload, 4),
    (ReplaceMain, 1),
    (KillWorker, 1),
    (KillGate, 1),
    (StepClock, 2),
    (Stall, 3),
    (Trouble, 3),
    (Browse, 3),
    (Pause, 12),
];

/// Steps of the wall clock, in seconds.
const STEPS: [i64; 6] = [-3_600, -120, -5, 5, 120, 3_600];
/// The headers that show a browser.
const BROWSERS: [(&str, &str); 4] = [
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0 Safari/537.36"),
    ("sec-fetch-site", "none"),
    ("sec-purpose", "prefetch;prerender"),
    ("x-moz", "prefetch"),
];
/// What a browser asks for in vain.
const CHANGES: [(&str, &str); 6] = [
    ("GET", "/prestop"),
    ("POST", "/prestop?wait"),
    ("POST", "/drain"),
    ("DELETE", "/drain"),
    ("POST", "/force?reason=browser"),
    ("POST", "/quitquitquit"),
];
const PAUSES: [u64; 5] = [20, 60, 150, 350, 700];
const PATIENCE: Duration = Duration::from_secs(10);

impl Action {
    pub(super) fn any(rng: &mut fastrand::Rng) -> Self {
        let total = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut left = rng.u32(0..total);
        for (action, weight) in WEIGHTS {
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => return action,
            }
        }
        Pause
    }

    /// Performs the action. Returns a line with the action and its result.
    pub(super) async fn perform(self, world: &mut World) -> Outcome<String> {
        let gate = world.rng.usize(0..2);
        let is_unsteady = matches!(self, Reload | ReplaceMain | KillWorker | KillGate);
        let action = if is_unsteady && world.plan.is_steady { Pause } else { self };
        let seen = match action {
            Begin => world.begin_any(),
            Finish | FinishAll | Abort => world.end(action),
            Prestop => world.poll(gate, "/prestop").await?,
            Ready => world.poll(gate, "/ready").await?,
            Drain => world.drain(gate).await?,
            Reset => world.reset(gate).await?,
            Force => world.force(gate).await?,
            Status => world.state(gate).await?,
            DrainListeners => world.signal(gate, "/drain_listeners").await?,
            Rush => world.rush(gate).await?,
            Quit => world.quit_beside_a_client(gate).await?,
            Reload => world.reload().await?.to_owned(),
            ReplaceMain => world.replace_main().await.map(|()| String::new())?,
            KillWorker => world.kill_worker().await,
            KillGate => world.kill_gate(gate).await?,
            StepClock => world.step_clock()?,
            Stall => world.stall(),
            Trouble => world.trouble(),
            Browse => world.browse(gate).await?,
            Pause => world.pause().await,
        };
        Ok(format!("{action:?} gate {gate}: {seen}"))
    }
}

impl World {
    fn begin_any(&mut self) -> String {
        let kind = Kind::ORDINARY[self.rng.usize(0..Kind::ORDINARY.len())];
        format!("{kind:?} {}", self.begin(kind))
    }

    /// Ends streams from the client's side or from the upstream's.
    fn end(&mut self, how: Action) -> String {
        let open = self.view.open();
        self.streams.retain(|stream| open.contains(&stream.id));
        let all = 0..self.streams.len();
        let one = self.rng.usize(0..all.end.max(1));
        let chosen = if matches!(how, FinishAll) { all } else { one..(one + 1).min(all.end) };
        let mut ids = Vec::new();
        for stream in &self.streams[chosen] {
            ids.push(stream.id);
            // The end of a stalling stream shows that its worker goes on.
            if matches!(how, Abort) && !stream.kind.stalls() {
                stream.abort(&self.view)
            } else {
                stream.finish(&self.upstream)
            }
        }
        format!("{ids:?}")
    }

    /// One request to a gate. A gate whose VM has just died may give no answer.
    pub(super) async fn ask(
        &mut self,
        gate: usize,
        method: &str,
        path: &str,
    ) -> Outcome<(Instant, Option<Response>)> {
        self.ask_with(gate, &Request::new(method, path)).await
    }

    async fn ask_with(
        &mut self,
        gate: usize,
        request: &Request,
    ) -> Outcome<(Instant, Option<Response>)> {
        let asked = Instant::now();
        let mut client = Client::connect(self.gates[gate].address)
            .await?
            .patience(PATIENCE + self.plan.deadline);
        let answer = client.request(request).await.ok();
        if answer
            .as_ref()
            .is_some_and(|answer| answer.json().is_ok_and(|json| json["state"] == "serving"))
        {
            self.gates[gate].served = asked;
        }
        Ok((asked, answer))
    }

    /// `/prestop`, which begins a drain, or `/ready`.
    pub(super) async fn poll(&mut self, gate: usize, path: &str) -> Outcome<String> {
        let (asked, answer) = self.ask(gate, "GET", path).await?;
        let Some(answer) = answer else { return Ok("no answer".into()) };
        match answer.status {
            200 => {
                self.opened += 1;
                opened(self, gate, path, asked, &answer.json()?).await?;
            }
            status => ensure!(status == 503, "gate {gate}: GET {path} answered {status}"),
        }
        Ok(format!("{path} {} {}", answer.status, answer.text()))
    }

    async fn drain(&mut self, gate: usize) -> Outcome<String> {
        Ok(said(self.ask(gate, "POST", "/drain").await?.1))
    }

    async fn reset(&mut self, gate: usize) -> Outcome<String> {
        self.resets += 1;
        let answer = self.ask(gate, "DELETE", "/drain").await?.1;
        if let Some(answer) = &answer
            && self.plan.quits
            && gate == 0
        {
            // Shorter than a quiet period, so no call is one of the next drain.
            let answered = Instant::now();
            sleep(Duration::from_millis(100)).await;
            self.check_last_calls().await?;
            cancelled(self, answered, answer)?;
        }
        Ok(said(answer))
    }

    /// Checks the last calls since the last look.
    pub(super) async fn check_last_calls(&mut self) -> Outcome {
        for call in self.signals.take_last_calls() {
            self.last_calls.push(call.at);
            last_call(self, &call).await?;
        }
        Ok(())
    }

    async fn force(&mut self, gate: usize) -> Outcome<String> {
        self.resets += 1;
        let answer = self.ask(gate, "POST", "/force?reason=adversary").await?.1;
        if answer.as_ref().is_some_and(|answer| answer.status == 200) {
            self.gates[gate].forced = Some(Instant::now());
        }
        Ok(said(answer))
    }

    /// The gate's state; empty without an answer.
    pub(super) async fn state(&mut self, gate: usize) -> Outcome<String> {
        let status = self.status(gate).await?;
        plausible(self, gate, &status)?;
        Ok(status["state"].as_str().unwrap_or_default().to_owned())
    }

    pub(super) async fn status(&mut self, gate: usize) -> Outcome<Value> {
        let answer = self.ask(gate, "GET", "/status").await?.1;
        Ok(answer.and_then(|answer| answer.json().ok()).unwrap_or_default())
    }

    pub(super) async fn signal(&mut self, gate: usize, path: &str) -> Outcome<String> {
        let (expired, before) = (self.expired(gate), self.state(gate).await?);
        self.signals.are_for(gate, path);
        let answer = self.ask(gate, "POST", path).await?.1;
        let passes = self.signals.take_asked();
        self.passed += passes.len() as u64;
        for pass in &passes {
            let after =
                if pass.waiting.is_empty() { String::new() } else { self.state(gate).await? };
            // On a busy machine a deadline can come and go between the two states.
            if self.expired(gate) == expired {
                passed(self, gate, pass, [&before, &after]).await?;
            }
        }
        Ok(format!("{} passed, {}", passes.len(), said(answer)))
    }

    /// How many drains of this gate have expired, by its own log.
    fn expired(&self, gate: usize) -> usize {
        let end = "the drain ends: expired";
        match &self.program {
            Some(program) if gate == 0 => program.stderr().matches(end).count(),
            _ => {
                let line = format!("wasm log {} laststream: {end}", GATES[gate]);
                self.envoy.log().matches(&line).count()
            }
        }
    }

    async fn rush(&mut self, gate: usize) -> Outcome<String> {
        let mut passes = 0;
        for _ in 0..8 {
            let kind = [Kind::Counted, Kind::LongLived, Kind::OtherListener, Kind::Outbound]
                [self.rng.usize(0..4)];
            self.begin(kind);
            sleep(Duration::from_micros(self.rng.u64(0..4_000))).await;
            passes += usize::from(self.signal(gate, "/drain_listeners").await?.starts_with('1'));
            let how = if self.rng.bool() { FinishAll } else { Finish };
            self.end(how);
        }
        Ok(format!("{passes} passed"))
    }

    async fn quit_beside_a_client(&mut self, gate: usize) -> Outcome<String> {
        let waits = !self.view.waiting(gate, Instant::now()).is_empty();
        if !waits || lets_all_go(&self.state(gate).await?) {
            return Ok("not tried".into());
        }
        self.signal(gate, "/quitquitquit").await
    }

    /// Kills the module's VM on one worker, or none while a filter that does not count is in its
    /// place.
    async fn kill_worker(&mut self) -> String {
        self.deaths += 1;
        die(self.main, "/echo").await
    }

    /// Kills the gate's VM, or the program, which is then started anew.
    async fn kill_gate(&mut self, gate: usize) -> Outcome<String> {
        if gate == 0 && self.program.is_some() {
            self.resets += 1;
            return self.start_program().await.map(|()| "started anew".into());
        }
        Ok(die(self.gates[gate].address, "/ready").await)
    }

    fn step_clock(&mut self) -> Outcome<String> {
        let step = STEPS[self.rng.usize(0..STEPS.len())];
        self.clock.step(step)?;
        Ok(format!("{step} s"))
    }

    fn stall(&mut self) -> String {
        let open = self.view.open();
        if self.streams.iter().any(|stream| stream.kind.stalls() && open.contains(&stream.id)) {
            return "one is under way".into();
        }
        self.stalls += 1;
        let kind = if self.rng.bool() { Kind::StallsAtBegin } else { Kind::StallsAtEnd };
        format!("{kind:?} {}", self.begin(kind))
    }

    fn trouble(&mut self) -> String {
        self.troubles += 1;
        let fault = FAULTS[self.rng.usize(0..FAULTS.len())];
        let lasts = Duration::from_millis(self.rng.u64(300..3_000));
        self.signals.is_in_trouble(Some((fault, Instant::now() + lasts)));
        format!("{fault:?} for {lasts:?}")
    }

    /// The gate refuses it, and begins nothing.
    async fn browse(&mut self, gate: usize) -> Outcome<String> {
        let (method, path) = CHANGES[self.rng.usize(0..CHANGES.len())];
        let (name, value) = BROWSERS[self.rng.usize(0..BROWSERS.len())];
        let before = self.state(gate).await?;
        let request = Request::new(method, path).header(name, value);
        let answer = self.ask_with(gate, &request).await?.1;
        let status = answer.as_ref().map_or(403, |answer| answer.status);
        // A gate whose VM has just died may let Envoy answer.
        ensure!(status == 403 || status >= 500, "{method} {path} with {name}: {}", said(answer));
        let after = self.state(gate).await?;
        ensure!(
            before != "serving" || after.is_empty() || after == before,
            "gate {gate}: {after} after {method} {path} with {name}"
        );
        Ok(format!("{method} {path} with {name}: {}", said(answer)))
    }

    async fn pause(&mut self) -> String {
        let pause = PAUSES[self.rng.usize(0..PAUSES.len())];
        sleep(Duration::from_millis(pause)).await;
        format!("{pause} ms")
    }
}

async fn die(at: std::net::SocketAddr, path: &str) -> String {
    let request = Request::get(path).header("x-laststream-die", "abort");
    let answer = async { Client::connect(at).await?.patience(PATIENCE).request(&request).await };
    answer.await.map_or("no answer".into(), |answer: Response| answer.status.to_string())
}

fn said(answer: Option<Response>) -> String {
    answer.map_or("no answer".into(), |answer| format!("{} {}", answer.status, answer.text()))
}
