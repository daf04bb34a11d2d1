//! As the first process of a container: whoever ends is reaped, and signals work although nothing
//! has a default for PID 1.

use std::io::Write as _;
use std::process::Command;

use crate::support::{PROGRAM, Proxy, Running, run, signal, until};

/// Why there can be no namespace, if there cannot.
fn missing() -> Option<String> {
    let (code, _, people) =
        run(Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]));
    (code != Some(0)).then(|| {
        format!(
            "`unshare --pid --fork --mount-proc` does not work here (it needs root): {}",
            people.trim()
        )
    })
}

fn not_tested(missing: &str) {
    let _ = writeln!(
        std::io::stderr(),
        "not tested: \
        {missing}"
    ); // nobody to tell when standard error is closed
}

fn as_init(proxy: &Proxy, options: &[&str], command: &[&str]) -> Command {
    let exec = proxy.exec(options, command);
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(exec.get_program())
        .args(exec.get_args());
    unshare
}

#[test]
fn reaps_orphans_and_keeps_the_exit_code() {
    if let Some(missing) = missing() {
        return not_tested(&missing);
    }
    let proxy = Proxy::start();
    // Fifty orphans that end; then nobody but PID 1, the shell, ps and its reader are there.
    let script = "for i in $(seq 50); do (sh -c 'sleep 0.1; exit 1' &) ; done; sleep 1; \
        cat /proc/[0-9]*/stat | grep -c ' Z '; echo \"pid $PPID\"; exit 42";
    let (code, out, people) =
        run(&mut as_init(&proxy, &["--end-proxy", "never"], &["sh", "-c", script]));
    assert_eq!((code, out.as_str()), (Some(42), "0\npid 1\n"), "{people}");
}

#[test]
fn the_test_above_would_see_zombies() {
    if let Some(missing) = missing() {
        return not_tested(&missing);
    }
    // A first process that reaps nothing: it stops itself.
    let script = "(sh -c 'sleep 0.1' &); sh -c 'sleep 0.5; cat /proc/[0-9]*/stat | grep -c \" Z \
        \"; kill -9 -1' & exec sleep 5";
    let out = run(Command::new("unshare").args([
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        script,
    ]))
    .1;
    assert_eq!(out, "1\n");
}

#[test]
fn signals_end_the_first_process() {
    if let Some(missing) = missing() {
        return not_tested(&missing);
    }
    let proxy = Proxy::start();
    let command = ["sh", "-c", "trap 'exit 33' TERM; echo ready; while :; do sleep 0.02; done"];
    let mut running = Running::start(&mut as_init(&proxy, &["--end-proxy", "never"], &command));
    assert_eq!(running.line(), "ready");
    signal(inner(&running), "TERM");
    assert_eq!(running.end().0, Some(33));

    proxy.answer("GET /ready", 503, "");
    let before = proxy.asked("GET /ready");
    let running = Running::start(&mut as_init(&proxy, &[], &["true"]));
    until("a look at the proxy", || proxy.asked("GET /ready") > before);
    signal(inner(&running), "TERM");
    assert_eq!(running.end().0, Some(143));
}

/// A network without any interface is no proxy, and nothing that was told to end.
#[test]
fn a_pod_without_a_network_has_no_proxy() {
    if let Some(missing) = missing() {
        return not_tested(&missing);
    }
    let exec = |options: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--net", PROGRAM, "exec"]);
        run(unshare.args(options).args(["--", "sh", "-c", "exit 44"]))
    };
    let (code, _, people) = exec(&["--no-proxy-ok=0s"]);
    assert_eq!(code, Some(44), "{people}");
    let (code, _, people) = exec(&["--ready-timeout", "300ms", "--gate-timeout", "300ms"]);
    assert_eq!(code, Some(2), "{people}");
    assert!(
        people.contains("cannot be reached") && people.contains("there is nothing to end"),
        "{people}"
    );
}

/// The child of `unshare`.
fn inner(running: &Running) -> u32 {
    run(Command::new("pgrep").args(["-P", &running.id().to_string()])).1.trim().parse().unwrap()
}
