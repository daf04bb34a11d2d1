//! A demo that is ended early leaves nothing running.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, ended, wait_for};

const ENVOYS: usize = 8;

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn ctrl_c_ends_every_envoy_and_removes_every_file() {
    // While they start, and while they drain.
    for (sent, millis) in [(Signal::INT, 0), (Signal::TERM, 2500)] {
        let place = Place::new();
        let demo = place.demo(&[]).spawn().unwrap();
        wait_for("Envoys", || place.envoys() >= ENVOYS);
        sleep(Duration::from_millis(millis));
        signal(demo.id(), sent);
        let (code, people) = ended(demo);
        assert_eq!(code, Some(2), "{people}");
        assert!(people.contains("interrupted"), "{people}");
        assert_eq!((place.envoys(), place.folders()), (0, 0));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn whoever_kills_the_demo_kills_every_envoy() {
    let place = Place::new();
    let mut demo = place.demo(&[]).spawn().unwrap();
    wait_for("Envoys", || place.envoys() >= ENVOYS);
    demo.kill().unwrap();
    demo.wait().unwrap();
    wait_for("no Envoys", || place.envoys() == 0);
}

#[test]
fn what_cannot_be_written_is_said_before_anything_starts() {
    let place = Place::new();
    for (file, words) in [("nowhere/report.html", "there is no folder"), (".", "is a folder")] {
        let (code, people) = ended(place.demo(&["--report", file]).spawn().unwrap());
        assert_eq!(code, Some(2), "{people}");
        assert!(
            people.contains(words) && people.contains(file) && !people.contains("starting"),
            "{people}"
        );
    }
}
