//! The streams that a change would cut, by `laststream lint --change --cluster`, compared with the
//! streams that Envoy cuts after the change.

use std::slice;
use std::time::Instant;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::objects::Change;
use crate::seen::row;
use kit::prelude::*;
use kit::user::User;
use kit::wait::join_all;

/// The drain time of the gateway's Envoy.
pub(crate) const DRAIN: Duration = Duration::from_secs(6);
/// How long the streams last that begin before the drain time and outlast it.
const LONG: Duration = Duration::from_secs(200);
/// How long the streams last that begin just before the change and end within the drain time.
const SHORT: Duration = Duration::from_secs(5);
const OLDER: usize = 3;
const YOUNGER: usize = 2;

/// Streams, each of which says at its end whether it was cut.
type Streams = JoinSet<Outcome<bool>>;

/// A gateway, whose pods are the only ones of their namespace that changes reach. It has the old
/// objects.
pub(crate) struct Gateway<'w> {
    pub(crate) case: &'static str,
    pub(crate) cluster: &'w Cluster,
    pub(crate) user: &'w User,
    pub(crate) namespace: &'static str,
    pub(crate) address: SocketAddr,
    /// The path of a request that takes so long.
    pub(crate) takes: fn(Duration) -> String,
}

impl Gateway<'_> {
    /// Makes a change while streams are open.
    pub(crate) async fn compare(&self, change: &Change) -> Outcome {
        let what = &change.what;
        let look = async || self.predicted_while_young(change).await;
        let all = format!("all streams before {what}");
        let (predicted, mut older, younger) = wait_for(PATIENCE, &all, look).await?;
        ensure_eq!(predicted, if change.replaces() { OLDER } else { 0 }, "predicted for {what}");
        self.cluster.apply_all(slice::from_ref(&change.new)).await?;
        self.arrived(change).await?;
        let mut ended = join_all(younger).await?;
        if change.replaces() {
            ended.extend(join_all(std::mem::take(&mut older)).await?);
        } else {
            sleep(2 * DRAIN).await;
        }
        while let Some(early) = older.try_join_next() {
            ended.push(early??);
        }
        let cut = ended.iter().filter(|is_cut| **is_cut).count();
        let seen = format!("{predicted} and {cut}, of {} streams", OLDER + YOUNGER);
        row(self.case, format!("{what}: predicted and cut"), seen);
        ensure_eq!((cut, older.len()), (predicted, OLDER - predicted), "cut, open after {what}");
        Ok(())
    }

    /// Streams that take so long.
    fn streams(&self, count: usize, takes: Duration) -> Streams {
        (0..count).map(|_| is_cut(self.address, (self.takes)(takes))).collect()
    }

    /// The prediction, with the older streams, and with young ones that did not grow old meanwhile.
    async fn predicted_while_young(&self, change: &Change) -> Outcome<(usize, Streams, Streams)> {
        let older = self.streams(OLDER, LONG);
        sleep(DRAIN + Duration::from_secs(1)).await;
        let began = Instant::now();
        let younger = self.streams(YOUNGER, SHORT);
        let predicted = self.predicted(change).await?;
        ensure!(began.elapsed() < DRAIN, "`lint` took {:?}", began.elapsed());
        let least = if change.replaces() { OLDER } else { 0 };
        ensure!(predicted >= least, "predicted: {predicted}"); // some may have begun late
        Ok((predicted, older, younger))
    }

    async fn arrived(&self, change: &Change) -> Outcome {
        let Some((request, status)) = &change.sign else { return Ok(()) };
        let look = async || once(self.address, request).await?.expect(*status).map(drop);
        wait_for(PATIENCE, &format!("{} in Envoy", change.what), look).await
    }

    /// The number of streams older than the drain time that the change would cut.
    async fn predicted(&self, change: &Change) -> Outcome<usize> {
        let file = |side, object: &Value| {
            self.user.argument(&format!("{}-{side}.yaml", self.case), object.to_string())
        };
        let (old, new) = (file("old", &change.old)?, file("new", &change.new)?);
        let lint = ["lint", "--change", &old, &new, "--cluster", "-o", "json"];
        let lint = [&lint[..], &["--namespace", self.namespace]].concat();
        let said = self.cluster.laststream(&lint).await?.json()?;
        let rows = said["cut_now"].as_array().context("`cut_now`")?;
        ensure_eq!(rows.len(), usize::from(change.replaces()), "workloads: {said}");
        for row in rows {
            ensure_eq!(row["unlisted"], 0, "{said}");
            ensure_eq!(row["unknown"], json!({}), "{said}");
            ensure_eq!(row["drain_seconds"], DRAIN.as_secs(), "{said}");
        }
        let older: u64 = rows.iter().filter_map(|row| row["older"].as_u64()).sum();
        Ok(usize::try_from(older)?)
    }
}

/// Whether a stream is cut, at its end.
async fn is_cut(to: SocketAddr, path: String) -> Outcome<bool> {
    let mut client = Client::connect(to).await?.patience(2 * LONG);
    match client.request(&Request::get(&path)).await {
        Ok(response) => response.expect(200).map(|_| false),
        Err(_) => Ok(true),
    }
}
