//! The program copies itself.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use kit::Outcome;
use kit::command::{CommandOutput, run};

use crate::beside::support::PROGRAM;

fn install(folder: &Path) -> Outcome<CommandOutput> {
    run(Command::new(PROGRAM).arg("install").arg(folder))
}

#[test]
fn the_copy_is_the_program() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("laststream");
    let CommandOutput { code, stdout, stderr } = install(folder.path())?;
    assert_eq!((code, stdout.trim_end()), (Some(0), path.to_str().unwrap()), "{stderr}");
    assert!(fs::read(&path).unwrap() == fs::read(PROGRAM).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o755);
    let segments = run(Command::new("readelf").args(["-l", PROGRAM]))?.stdout;
    let dynamic = segments.contains("INTERP");
    assert_eq!(stderr.contains("C library"), dynamic, "{stderr}");
    // The copy can do it, too, also over itself while it runs.
    assert_eq!(run(Command::new(&path).arg("install").arg(folder.path()))?.code, Some(0));
    assert_eq!(run(Command::new(&path).arg("version"))?.code, Some(0));
    Ok(())
}

#[test]
fn several_at_once_leave_one_whole_copy() -> Outcome {
    let folder = tempfile::tempdir()?;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(install(folder.path()).unwrap().code, Some(0)));
        }
    });
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["laststream"]);
    assert!(fs::read(folder.path().join("laststream")).unwrap() == fs::read(PROGRAM).unwrap());
    Ok(())
}

#[test]
fn a_failed_installation_names_the_reason() -> Outcome {
    let folder = tempfile::tempdir()?;
    install(&folder.path().join("none"))?.expect(2)?.stderr_contains("is not a folder")?;
    fs::create_dir(folder.path().join("laststream"))?;
    install(folder.path())?.expect(2)?.stderr_contains("is a folder")?;
    install(Path::new("/proc/self"))?
        .expect(2)?
        .stderr_contains("cannot write into `/proc/self`")?;
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    Ok(())
}
