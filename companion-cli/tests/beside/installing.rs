//! The program copies itself.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::support::{PROGRAM, run};

fn install(folder: &Path) -> (Option<i32>, String, String) {
    run(Command::new(PROGRAM).arg("install").arg(folder))
}

#[test]
fn the_copy_is_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("laststream");
    let (code, out, people) = install(folder.path());
    assert_eq!((code, out.trim_end()), (Some(0), path.to_str().unwrap()), "{people}");
    assert!(fs::read(&path).unwrap() == fs::read(PROGRAM).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o755);
    let dynamic =
        String::from_utf8_lossy(&run(Command::new("readelf").args(["-l", PROGRAM])).1.into_bytes())
            .contains("INTERP");
    assert_eq!(people.contains("C library"), dynamic, "{people}");
    // The copy can do it, too, also over itself while it runs.
    assert_eq!(run(Command::new(&path).arg("install").arg(folder.path())).0, Some(0));
    assert_eq!(run(Command::new(&path).arg("version")).0, Some(0));
}

#[test]
fn several_at_once_leave_one_whole_copy() {
    let folder = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(install(folder.path()).0, Some(0)));
        }
    });
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["laststream"]);
    assert!(fs::read(folder.path().join("laststream")).unwrap() == fs::read(PROGRAM).unwrap());
}

#[test]
fn says_why_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let none = install(&folder.path().join("none"));
    assert!(none.0 == Some(2) && none.2.contains("is no folder"), "{none:?}");
    fs::create_dir(folder.path().join("laststream")).unwrap();
    let taken = install(folder.path());
    assert!(taken.0 == Some(2) && taken.2.contains("is a folder"), "{taken:?}");
    let unwritable = install(Path::new("/proc/self"));
    assert!(
        unwritable.0 == Some(2) && unwritable.2.contains("cannot write into `/proc/self`"),
        "{unwritable:?}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
