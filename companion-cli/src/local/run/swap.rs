//! Changes while Envoy runs. A change that Envoy does not take as a whole is taken back as a whole.

use std::path::Path;
use std::time::{Duration, Instant};

use super::error::Refusal;
use super::{Current, PATIENCE, PAUSE, Runner};
use crate::policy::Policy;
use crate::render::local::{self, Watched};
use crate::yaml::Map;

impl Runner {
    pub(super) fn swap(
        &mut self,
        policy: Option<&Policy>,
        module: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        let mut wanted = self.current.clone();
        if let Some(policy) = policy {
            wanted.policy = policy.clone();
        }
        if let Some(module) = module {
            wanted.module = self.folder.add_module(module).map_err(Refusal::Files)?;
        }
        let mut done = Vec::new();
        for (file, before, after) in self.changes(&wanted) {
            done.push((file, before));
            if let Err(refusal) = self.tell(file, &after) {
                self.take_back(&done);
                return Err(refusal);
            }
        }
        self.current = wanted;
        Ok(())
    }

    /// What differs, and nothing else: a listener that is the same keeps its connections.
    fn changes(&self, wanted: &Current) -> Vec<(Watched, Map, Map)> {
        let folder = self.folder.path();
        let all = |current: &Current| {
            [
                (Watched::Gate, local::gate(&current.policy, &current.module)),
                (Watched::Stream, local::stream(&current.policy, &current.module)),
                (Watched::Listeners, local::listeners(&current.policy, self.ports, folder)),
            ]
        };
        let pairs = all(&self.current).into_iter().zip(all(wanted));
        pairs
            .filter(|(before, after)| before.1 != after.1)
            .map(|((file, before), (_, after))| (file, before, after))
            .collect()
    }

    fn tell(&mut self, file: Watched, resource: &Map) -> Result<(), Refusal> {
        let said = self.log.length();
        let before = self.verdicts(file).map_err(Refusal::Unknown)?;
        self.folder.publish(file, resource).map_err(Refusal::Files)?;
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            match self.verdicts(file) {
                Ok(now) if now.refused > before.refused => {
                    return Err(Refusal::Envoy(self.reason(said)));
                }
                Ok(now) if now.taken > before.taken => return Ok(()),
                _ if self.ended().is_some() => {
                    return Err(Refusal::Unknown("Envoy has ended".into()));
                }
                _ if self.stop.is_asked() => return Err(Refusal::Stopped),
                _ => std::thread::sleep(PAUSE),
            }
        }
        Err(Refusal::Silence(PATIENCE))
    }

    /// The old ones were taken once and are taken again. The files must say what runs: other
    /// listeners may read them later.
    fn take_back(&mut self, done: &[(Watched, Map)]) {
        for (file, before) in done.iter().rev() {
            // Envoy runs on what it has, and there is nothing better to give it
            let _ = self.tell(*file, before);
        }
    }

    fn verdicts(&self, file: Watched) -> Result<Verdicts, String> {
        let stats = self.admin.stats(file.stats())?;
        let of = |name: &str| stats.get(&format!("{}.{name}", file.stats())).copied().unwrap_or(0);
        Ok(Verdicts { taken: of("update_success"), refused: of("update_rejected") })
    }

    /// The log is written a moment later.
    fn reason(&self, since: usize) -> String {
        let asked = Instant::now();
        loop {
            match self.log.refusal(since) {
                Some(reason) => return reason,
                None if asked.elapsed() > Duration::from_secs(2) => {
                    return why_is_in(self.log.path());
                }
                None => std::thread::sleep(PAUSE),
            }
        }
    }
}

fn why_is_in(log: &Path) -> String {
    format!("why is in `{}`", log.display())
}

/// How often Envoy took and refused a version so far.
#[derive(Debug, Clone, Copy)]
struct Verdicts {
    taken: u64,
    refused: u64,
}
