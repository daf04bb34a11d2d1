//! Load on plain threads and sockets, which cost next to nothing compared with Envoy: as much as
//! possible, or at a fixed rate.

use kit::prelude::*;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// The read time-out, longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request, its target, and the end of its answer.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) to: SocketAddr,
    pub(crate) request: Vec<u8>,
    pub(crate) end: &'static [u8],
}

/// A connection that sends the same request again and again.
struct Line {
    tcp: TcpStream,
    ask: Ask,
    answer: Vec<u8>,
}

impl Line {
    fn connect(ask: &Ask) -> Outcome<Self> {
        let tcp = TcpStream::connect(ask.to).context("connecting")?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { tcp, ask: ask.clone(), answer: Vec::new() })
    }

    fn ask(&mut self) -> Outcome {
        self.tcp.write_all(&self.ask.request)?;
        self.answer.clear();
        let mut piece = [0; 16384];
        while !self.answer.ends_with(self.ask.end) {
            match self.tcp.read(&mut piece) {
                Ok(0) => return Err(Error::msg("the connection ended within an answer")),
                Ok(read) => self.answer.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        ensure!(
            self.answer.starts_with(b"HTTP/1.1 200 "),
            "{}",
            String::from_utf8_lossy(&self.answer)
        );
        Ok(())
    }
}

/// The number of answers in this time, when each connection sends a request as soon as the last one
/// is answered.
pub(crate) fn flat_out(ask: &Ask, connections: usize, time: Duration) -> Outcome<usize> {
    let end = Instant::now() + time;
    flat_out_while(ask, connections, || Instant::now() < end)
}

/// The same for as long as `is_wanted` is true.
pub(crate) fn flat_out_while(
    ask: &Ask,
    connections: usize,
    is_wanted: impl Fn() -> bool + Sync,
) -> Outcome<usize> {
    let counts = on_each(ask, connections, |line, _| {
        let mut count = 0;
        while is_wanted() {
            line.ask()?;
            count += 1;
        }
        Ok(count)
    })?;
    Ok(counts.into_iter().sum())
}

/// The latency of each answer in microseconds, sorted. It counts from the time at which the request
/// was due, so that a slow answer also delays those behind it.
pub(crate) fn paced(
    ask: &Ask,
    connections: usize,
    per_second: u32,
    time: Duration,
) -> Outcome<Vec<f64>> {
    let step = Duration::from_secs(1) / per_second;
    let begun = Instant::now();
    let times = on_each(ask, connections, |line, index| {
        let mut times = Vec::new();
        let mut due = begun + step * index as u32;
        while due < begun + time {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            line.ask()?;
            times.push(due.elapsed().as_secs_f64() * 1e6);
            due += step * connections as u32;
        }
        Ok(times)
    })?;
    let mut times: Vec<f64> = times.into_iter().flatten().collect();
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The latency of each answer in microseconds, sorted, when a request follows each pause.
pub(crate) fn now_and_then(ask: &Ask, pause: Duration, time: Duration) -> Outcome<Vec<f64>> {
    let mut line = Line::connect(ask)?;
    let end = Instant::now() + time;
    let mut times = Vec::new();
    while Instant::now() < end {
        thread::sleep(pause);
        let begun = Instant::now();
        line.ask()?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// A quantile of sorted figures.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted
        .get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

/// Runs `work` on this number of threads, each with a connection of its own.
fn on_each<T: Send>(
    ask: &Ask,
    connections: usize,
    work: impl Fn(&mut Line, usize) -> Outcome<T> + Sync,
) -> Outcome<Vec<T>> {
    let lines = (0..connections).map(|_| Line::connect(ask)).collect::<Outcome<Vec<Line>>>()?;
    let work = &work;
    thread::scope(|scope| {
        let running: Vec<_> = lines
            .into_iter()
            .enumerate()
            .map(|(index, mut line)| scope.spawn(move || work(&mut line, index)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().map_err(|_| Error::msg("a thread of the load died"))?)
            .collect()
    })
}
