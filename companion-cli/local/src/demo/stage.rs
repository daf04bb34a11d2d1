//! Starts all pods and gateways, runs the lanes side by side, and observes them.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use http::Method;

use super::clock::{Clock, GRAIN};
use super::container::Container as _;
use super::judge::{LaneResult, judge};
use super::kubelet::Kubelet;
use super::lane::{EndedBy, Lane};
use super::pod::{Pod, idle_connection};
use super::proxy::{INTERRUPTED, Proxy, Starter};
use super::record::{Actor, LaneMark, News, Record, seconds};
use super::scheme::{Scheme, SchemeStage};
use super::times::Times;
use super::{Settings, gateway};
use crate::http::Http;
use laststream_gate::Response;

/// The pods and gateways that run before the requests are sent.
pub(super) struct Stage {
    lanes: Vec<RunningLane>,
    scheme: Scheme,
    _gateway: Proxy,
}

/// A lane whose pods run.
struct RunningLane {
    lane: Lane,
    pods: Vec<Pod>,
    gateway: u16,
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
        let gateway = gateway::start(starter, &all)?;
        let scheme = scheme.ready(&stop)?.play()?;
        gateway.ready(&stop)?;
        let set = |(lane, pods): (Lane, Vec<Pod>)| {
            let idle = pods.iter().map(|pod| idle_connection(pod.inbound));
            let idle = idle.collect::<Result<_, String>>()?;
            Ok(RunningLane { lane, pods, gateway: gateway.port(lane.key())?, _idle: idle })
        };
        Ok(Self {
            lanes: all.into_iter().map(set).collect::<Result<_, String>>()?,
            scheme,
            _gateway: gateway,
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
        let (answer, answered, deletion) = thread::scope(|scope| {
            let client = scope.spawn(|| self.request(times, clock, &record));
            clock.until(|| clock.now() >= times.delete_after);
            // On a busy machine the request may not have reached the app yet, and without it there
            // is nothing to lose.
            clock.until(|| {
                self.pods.iter().any(|pod| pod.app.in_flight() > 0) || client.is_finished()
            });
            let deletion = self.delete(times, clock, &record);
            let (answer, answered) =
                client.join().unwrap_or_else(|_| (Err("the client broke".to_owned()), clock.now()));
            // the second pod, which is not deleted
            self.pods.iter().for_each(|pod| pod.app.terminate());
            (answer, answered, deletion)
        });
        let pod = self.pods.get(deletion.pod);
        let (events, hook) = record.finish();
        let result = LaneResult {
            lane: self.lane,
            about: self.lane.about(),
            lost: !answer.as_ref().is_ok_and(is_whole),
            status: answer.as_ref().ok().map(|reply| reply.status),
            broken: answer.err(),
            answered: seconds(answered),
            executions: self.pods.iter().map(|pod| pod.app.executions()).sum(),
            deleted: seconds(deletion.at),
            proxy_ended: seconds(deletion.proxy_ended),
            ended_by: pod.map_or(EndedBy::StillRunning, Pod::ended_by),
            pod_gone: seconds(deletion.pod_gone),
            why: String::new(),
            surprises: Vec::new(),
            events,
            hook,
        };
        judge(result, pod.and_then(|pod| pod.agent.connections()), times)
    }

    /// The client: one request through the gateway.
    fn request(
        &self,
        times: &Times,
        clock: &Clock,
        record: &Record<'_>,
    ) -> (Result<Response, String>, Duration) {
        record.note(Actor::Client, format!("GET /delay/{}", times.request.as_secs_f64()));
        let url =
            format!("http://127.0.0.1:{}/delay/{}", self.gateway, times.request.as_secs_f64());
        let answer = request_until_over(url, times.patience(), clock);
        let at = clock.now();
        let words = match &answer {
            Ok(reply) => format!("gets {}", reply.status),
            Err(error) => format!("the connection breaks: {error}"),
        };
        let is_good = answer.as_ref().is_ok_and(is_whole);
        record.mark(
            Actor::Client,
            words,
            if is_good { LaneMark::Answered } else { LaneMark::Lost },
        );
        (answer, at)
    }

    /// Deletes the pod that has the request, and waits until it has gone.
    fn delete(&self, times: &Times, clock: &Clock, record: &Record<'_>) -> Deletion {
        let index = self.pods.iter().position(|pod| pod.app.in_flight() > 0).unwrap_or_default();
        let mut deletion = Deletion {
            pod: index,
            at: clock.now(),
            proxy_ended: Duration::ZERO,
            pod_gone: Duration::ZERO,
        };
        let Some(pod) = self.pods.get(index) else { return deletion };
        record.mark(Actor::Kubelet, "the pod is deleted", LaneMark::Deleted);
        let kubelet = Kubelet { times, record, clock };
        thread::scope(|scope| {
            scope.spawn(|| {
                if kubelet.stop(&pod.stopping_app(times)) {
                    record.note(Actor::App, "ends");
                }
            });
            kubelet.stop(&pod.stopping_proxy(times));
            deletion.proxy_ended = clock.now();
            record.mark(Actor::Proxy, "has ended", LaneMark::ProxyEnded);
        });
        deletion.pod_gone = clock.now();
        deletion
    }
}

/// Sends the request in a separate thread, because nothing can end a request that is under way.
/// When the demo is over, the thread is abandoned.
fn request_until_over(url: String, patience: Duration, clock: &Clock) -> Result<Response, String> {
    let (sender, answer) = channel();
    thread::spawn(move || sender.send(Http::default().request(Method::GET, &url, &[], patience)));
    loop {
        match answer.recv_timeout(GRAIN) {
            Ok(answer) => return answer.map_err(|error| error.to_string()),
            Err(RecvTimeoutError::Timeout) if !clock.is_over() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Whether the response is the app's own and complete.
fn is_whole(response: &Response) -> bool {
    response.status == 200
        && serde_json::from_str::<serde_json::Value>(&response.body)
            .is_ok_and(|json| json["delay"].is_number())
}

struct Deletion {
    pod: usize,
    at: Duration,
    proxy_ended: Duration,
    pod_gone: Duration,
}
