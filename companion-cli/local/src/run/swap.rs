//! Updates of a running Envoy. If Envoy rejects one part of an update, all parts are rolled back.

use std::time::{Duration, Instant};

use super::{Current, PATIENCE, PAUSE, Runner};
use laststream_base::causes::Context as _;
use laststream_base::yaml::Map;
use laststream_policy::Policy;
use laststream_render::local::{self, Watched};

const UNASKED: &str = "Envoy cannot be asked about it";

impl Runner {
    /// Hot-reloads the policy, the module, or both, without dropping requests. If Envoy rejects
    /// one, nothing changes; the error says why.
    pub fn replace(
        &mut self,
        policy: Option<&Policy>,
        module: Option<&[u8]>,
    ) -> Result<(), String> {
        let mut target = self.current.clone();
        if let Some(policy) = policy {
            target.policy = policy.clone();
        }
        if let Some(module) = module {
            target.module = self.folder.add_module(module)?;
        }
        let mut changes = Vec::new();
        for (file, before, after) in self.changes(&target) {
            changes.push((file, before));
            if let Err(refusal) = self.publish_and_wait(file, &after) {
                self.roll_back(&changes);
                return Err(refusal);
            }
        }
        self.current = target;
        Ok(())
    }

    /// The files that differ, with the old and the new contents. An unchanged listener keeps its
    /// connections.
    fn changes(&self, wanted: &Current) -> Vec<(Watched, Map, Map)> {
        let (folder, frames) = (self.folder.path(), self.folder.frames());
        let all = |current: &Current| {
            [
                (Watched::Gate, local::gate(&current.policy, &current.module)),
                (Watched::Stream, local::stream(&current.policy, &current.module)),
                (
                    Watched::Listeners,
                    local::listeners(&current.policy, self.ports, folder, &frames),
                ),
            ]
        };
        let pairs = all(&self.current).into_iter().zip(all(wanted));
        pairs
            .filter(|(before, after)| before.1 != after.1)
            .map(|((file, before), (_, after))| (file, before, after))
            .collect()
    }

    fn publish_and_wait(&mut self, file: Watched, resource: &Map) -> Result<(), String> {
        let log_length = self.log.length();
        let before = self.update_counts(file).context(UNASKED)?;
        self.folder.publish(file, resource)?;
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match self.update_counts(file) {
                Ok(now) if now.refused > before.refused => {
                    return Err(format!("Envoy refuses it: {}", self.reason(log_length)));
                }
                Ok(now) if now.taken > before.taken => return Ok(()),
                _ if self.ended().is_some() => {
                    return Err(format!("{UNASKED}: Envoy has ended"));
                }
                _ if self.stop.is_requested() => {
                    return Err("interrupted by a request to stop".to_owned());
                }
                _ => std::thread::sleep(PAUSE),
            }
        }
        let seconds = PATIENCE.as_secs();
        Err(format!("Envoy has neither accepted nor rejected it within {seconds} s"))
    }

    /// Publishes the old versions. Envoy accepted them before and accepts them again. The files
    /// must match the active configuration, because other listeners may read them later.
    fn roll_back(&mut self, done: &[(Watched, Map)]) {
        for (file, before) in done.iter().rev() {
            // if this fails, Envoy keeps its configuration, and there is no better one to give it
            let _ = self.publish_and_wait(*file, before);
        }
    }

    fn update_counts(&self, file: Watched) -> Result<UpdateCounts, String> {
        let stats = self.admin.stats(file.stats())?;
        let of = |name: &str| stats.get(&format!("{}.{name}", file.stats())).copied().unwrap_or(0);
        Ok(UpdateCounts { taken: of("update_success"), refused: of("update_rejected") })
    }

    /// Why Envoy rejected an update. This waits for the log, which is written a moment later.
    fn reason(&self, since: usize) -> String {
        let began = Instant::now();
        loop {
            match self.log.refusal(since) {
                Some(reason) => return reason,
                None if began.elapsed() > Duration::from_secs(2) => {
                    return format!("see the end of `{}`", self.log.path().display());
                }
                None => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// The numbers of versions that Envoy has accepted and rejected so far.
#[derive(Debug, Clone, Copy)]
struct UpdateCounts {
    taken: u64,
    refused: u64,
}
