//! Starts all gateways and their caller, runs the lanes side by side, and observes them.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::client::{Client, StreamEnd};
use super::clock::Clock;
use super::judge::{LaneResult, judge};
use super::kubelet::Kubelet;
use super::lane::{EndedBy, Lane};
use super::pod::{Pod, idle_connection};
use super::proxy::{INTERRUPTED, Proxy, Starter};
use super::record::{Actor, LaneMark, News, Record, seconds};
use super::scheme::{Scheme, SchemeStage};
use super::times::Times;
use super::{Settings, caller};
use crate::http::Http;

/// The Envoys that run before the streams begin.
pub(super) struct Stage {
    lanes: Vec<RunningLane>,
    scheme: Scheme,
    _caller: Proxy,
}

/// A lane whose pods run.
struct RunningLane {
    lane: Lane,
    pods: Vec<Pod>,
    /// The caller's port.
    port: u16,
    _idle: Vec<Http>,
}

impl Stage {
    pub(super) fn prepare(starter: &Starter, settings: &Settings) -> Result<Self, String> {
        let stop = Clock::start(Duration::MAX, settings.stop.clone());
        // All of them start before the first one is waited for.
        let started = Lane::ALL.iter().map(|lane| {
            let start = |index| Pod::start(*lane, index, starter, &settings.times);
            Ok((*lane, (0..lane.pods()).map(start).collect::<Result<Vec<_>, _>>()?))
        });
        let started: Vec<(Lane, Vec<Pod>)> = started.collect::<Result<_, String>>()?;
        let scheme = SchemeStage::start(starter)?;
        let all = started.into_iter().map(|(lane, pods)| {
            let pods = pods.into_iter().map(|pod| pod.ready(&stop));
            Ok((lane, pods.collect::<Result<Vec<_>, _>>()?))
        });
        let all: Vec<(Lane, Vec<Pod>)> = all.collect::<Result<_, String>>()?;
        let caller = caller::start(starter, &all)?;
        let scheme = scheme.ready(&stop)?.play()?;
        caller.ready(&stop)?;
        let set = |(lane, pods): (Lane, Vec<Pod>)| {
            let idle = pods.iter().map(|pod| idle_connection(pod.inbound));
            let idle = idle.collect::<Result<_, String>>()?;
            Ok(RunningLane { lane, pods, port: caller.port(lane.key())?, _idle: idle })
        };
        Ok(Self {
            lanes: all.into_iter().map(set).collect::<Result<_, String>>()?,
            scheme,
            _caller: caller,
        })
    }

    /// The values of `x-forwarded-proto`, which were read before the lanes began.
    pub(super) fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    pub(super) fn play(
        &self,
        settings: &Settings,
        news: &Sender<News>,
    ) -> Result<Vec<LaneResult>, String> {
        let times = &settings.times;
        let clock = Clock::start(times.patience(), settings.stop.clone());
        let _ = news.send(News::Began); // a view that has ended needs no news
        let lanes = thread::scope(|scope| {
            let lanes: Vec<_> = self
                .lanes
                .iter()
                .map(|set| scope.spawn(|| set.play(times, &clock, news)))
                .collect();
            lanes.into_iter().filter_map(|lane| lane.join().ok()).collect::<Vec<_>>()
        });
        if settings.stop.load(Ordering::Relaxed) {
            return Err(INTERRUPTED.to_owned());
        }
        Ok(lanes)
    }
}

impl RunningLane {
    fn play(&self, times: &Times, clock: &Clock, news: &Sender<News>) -> LaneResult {
        let record = Record::new(self.lane, clock.clone(), news);
        self.pods.iter().for_each(|pod| pod.agent.start_clock(clock));
        let client = Client { port: self.port, times, clock, record: &record };
        let (request, websocket, deletion) = thread::scope(|scope| {
            let request = scope.spawn(|| client.request());
            let websocket = scope.spawn(|| client.websocket());
            clock.until(|| clock.now() >= times.delete_after);
            // On a busy machine the streams may not have reached the app yet, and without them
            // there is nothing to lose.
            clock.until(|| {
                let in_flight: usize = self.pods.iter().map(|pod| pod.app.in_flight()).sum();
                in_flight == 2 || request.is_finished() || websocket.is_finished()
            });
            let deletion = self.delete(times, clock, &record);
            let broke = |_| {
                let result = "the client broke".to_owned();
                StreamEnd { result, at: seconds(clock.now()), lost: true }
            };
            (request.join().unwrap_or_else(broke), websocket.join().unwrap_or_else(broke), deletion)
        });
        let pod = self.pods.get(deletion.pod);
        let (events, hook) = record.finish();
        let result = LaneResult {
            lane: self.lane,
            about: self.lane.about(),
            request,
            websocket,
            executions: self.pods.iter().map(|pod| pod.app.executions()).sum(),
            deleted: seconds(deletion.at),
            envoy_ended: seconds(deletion.envoy_ended),
            ended_by: pod.map_or(EndedBy::StillRunning, Pod::ended_by),
            why: String::new(),
            surprises: Vec::new(),
            events,
            hook,
        };
        judge(result, pod.and_then(|pod| pod.agent.connections()), times)
    }

    /// Deletes the pod that has the streams, and waits until it has gone.
    fn delete(&self, times: &Times, clock: &Clock, record: &Record<'_>) -> Deletion {
        let index = self.pods.iter().position(|pod| pod.app.in_flight() > 0).unwrap_or_default();
        let at = clock.now();
        if let Some(pod) = self.pods.get(index) {
            record.mark(Actor::Kubelet, "the pod is deleted", LaneMark::Deleted);
            Kubelet { times, record, clock }.stop(&pod.agent, pod.hook(times).as_ref());
            record.mark(Actor::Gateway, "has ended", LaneMark::EnvoyEnded);
        }
        Deletion { pod: index, at, envoy_ended: clock.now() }
    }
}

struct Deletion {
    pod: usize,
    at: Duration,
    envoy_ended: Duration,
}
