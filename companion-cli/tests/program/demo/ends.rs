//! A demo that is ended early leaves nothing running.

use std::thread::sleep;
use std::time::Duration;

use kit::Outcome;
use kit::command::run;
use kit::process::Process;
use kit::wait::until;
use rustix::process::Signal;

use crate::demo::support::Place;

const ENVOYS: usize = 10;

#[test]
fn ctrl_c_ends_every_envoy_and_removes_every_file() -> Outcome {
    // While they start, and while they drain.
    for (sent, millis) in [(Signal::INT, 0), (Signal::TERM, 2500)] {
        let place = Place::new();
        let mut demo = Process::capture(&place.demo(&[]))?;
        until("Envoys", || place.envoys() >= ENVOYS)?;
        sleep(Duration::from_millis(millis));
        demo.signal(sent)?;
        demo.finish()?.expect(2)?.stderr_contains("interrupted")?;
        assert_eq!((place.envoys(), place.folders()), (0, 0));
    }
    Ok(())
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_demo_leaves_no_envoy() -> Outcome {
    let place = Place::new();
    let mut demo = Process::capture(&place.demo(&[]))?;
    until("Envoys", || place.envoys() >= ENVOYS)?;
    demo.kill()?;
    until("no Envoys", || place.envoys() == 0)?;
    Ok(())
}

#[test]
fn an_unwritable_report_is_an_error_before_the_start() -> Outcome {
    let place = Place::new();
    for (file, words) in [("nowhere/report.html", "there is no folder"), (".", "is a folder")] {
        run(&mut place.demo(&["--report", file]))?
            .expect(2)?
            .stderr_contains(words)?
            .stderr_contains(file)?
            .hides("starting")?;
    }
    Ok(())
}
