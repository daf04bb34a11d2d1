//! The time-outs of Envoy's watchdog, from its configuration.

use laststream_drain::state::Millis;
use laststream_drain::watchdog::Watchdog;
use serde_json::Value;

/// The part of Envoy's configuration that [`read`] reads.
pub(super) const CONFIGURATION: &str = "/config_dump?mask=bootstrap.watchdogs,bootstrap.watchdog";

/// None: this is not Envoy's configuration.
pub(super) fn read(body: &str) -> Option<Watchdog> {
    let dump: Value = serde_json::from_str(body).ok()?;
    let first = dump.pointer("/configs/0")?;
    let kind = first.get("@type")?.as_str()?;
    kind.ends_with("envoy.admin.v3.BootstrapConfigDump").then_some(())?;
    let time = |name: &str| {
        ["watchdogs/worker_watchdog", "watchdog"].iter().find_map(|place| {
            let text = first.pointer(&format!("/bootstrap/{place}/{name}"))?.as_str()?;
            let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
            Some(Millis((seconds * 1_000.0).ceil() as u64))
        })
    };
    Some(Watchdog::new(time("miss_timeout"), time("megamiss_timeout")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_outs_are_those_of_the_workers() {
        let dump = |bootstrap: &str| {
            format!(
                r#"{{"configs": [{{"@type": "x/envoy.admin.v3.BootstrapConfigDump",
                    "bootstrap": {bootstrap}}}]}}"#
            )
        };
        for (bootstrap, within) in [
            ("{}", 900),
            (r#"{"watchdogs": {"main_thread_watchdog": {"miss_timeout": "9s"}}}"#, 900),
            (r#"{"watchdogs": {"worker_watchdog": {"miss_timeout": "0.050s"}}}"#, 300),
            (r#"{"watchdog": {"miss_timeout": "2s"}}"#, 4_100),
        ] {
            let watchdog = read(&dump(bootstrap));
            assert_eq!(watchdog.map(Watchdog::notices_within), Some(Millis(within)), "{bootstrap}");
        }
        for foreign in ["", "{}", "<html>", r#"{"configs": [{"@type": "x", "bootstrap": {}}]}"#] {
            assert_eq!(read(foreign), None, "{foreign}");
        }
    }
}
