//! As the first process of a container: processes that end are reaped, and signals work although
//! PID 1 has no default actions for them.

use std::process::Command;

use kit::Outcome;
use kit::command::run;
use kit::process::Process;
use kit::wait::until;
use rustix::process::geteuid;

use crate::beside::support::{PROGRAM, Proxy, child_of, signal};

/// Makes the next command the first process of a namespace, which ends with `unshare`. It needs
/// root, or user namespaces.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

fn as_init(proxy: &Proxy, options: &[&str], command: &[&str]) -> Command {
    let exec = proxy.exec(options, command);
    let mut unshare = unshare();
    unshare.arg(exec.get_program()).args(exec.get_args());
    unshare
}

/// A script that waits for this number of zombies, a minute at most, and prints how many there are.
fn zombies(count: u32) -> String {
    format!(
        "for i in $(seq 600); do left=$(cat /proc/[0-9]*/stat | grep -c ' Z '); \
         [ $left = {count} ] && break; sleep 0.1; done; echo $left"
    )
}

#[test]
fn orphans_are_reaped_and_the_exit_code_passes() -> Outcome {
    let proxy = Proxy::start()?;
    // Fifty orphans that end, and `cat` with the last of them.
    let script = format!(
        "for i in $(seq 50); do (sh -c 'sleep 0.1; exit 1' &) ; done | cat; {}; \
         echo \"pid $PPID\"; exit 42",
        zombies(0)
    );
    let output =
        run(&mut as_init(&proxy, &["--end-proxy", "never"], &["sh", "-c", &script]))?.expect(42)?;
    assert_eq!(output.stdout, "0\npid 1\n");
    Ok(())
}

#[test]
fn the_test_above_would_see_zombies() -> Outcome {
    // A first process that reaps nothing, so that the script must find a zombie.
    let script = format!("(sh -c 'sleep 0.1' &); exec cat < <({})", zombies(1));
    let stdout = run(unshare().args(["bash", "-c", &script]))?.expect(0)?.stdout;
    assert_eq!(stdout, "1\n");
    Ok(())
}

#[test]
fn signals_end_the_first_process() -> Outcome {
    let proxy = Proxy::start()?;
    let command = ["sh", "-c", "trap 'exit 33' TERM; echo ready; while :; do sleep 0.02; done"];
    let mut running = Process::capture(&as_init(&proxy, &["--end-proxy", "never"], &command))?;
    assert_eq!(running.next_line()?, "ready");
    signal(child_of(running.pid())?, "TERM")?;
    assert_eq!(running.finish()?.code, Some(33));

    proxy.answer("GET /ready", 503, "");
    let before = proxy.received("GET /ready");
    let mut running = Process::capture(&as_init(&proxy, &[], &["true"]))?;
    until("a look at the proxy", || proxy.received("GET /ready") > before)?;
    signal(child_of(running.pid())?, "TERM")?;
    assert_eq!(running.finish()?.code, Some(143));
    Ok(())
}

/// Commands that start no programs end, too, such as the one that a container runs for ever.
#[test]
fn signals_end_a_first_process_that_only_watches() -> Outcome {
    let proxy = Proxy::start()?;
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let before = proxy.received("GET /status");
        let mut watch = unshare();
        watch.args(["env", "--default-signal=INT", PROGRAM]);
        watch.args(["status", "--watch", "--gate", &proxy.url("")]);
        let mut running = Process::capture(&watch)?;
        until("a look at the gate", || proxy.received("GET /status") > before + 1)?;
        signal(child_of(running.pid())?, name)?;
        assert_eq!(running.finish()?.code, Some(code));
    }
    Ok(())
}

/// Without any network interface there is no proxy, and nothing to end.
#[test]
fn a_pod_without_a_network_has_no_proxy() -> Outcome {
    let exec = |options: &[&str]| {
        let mut unshare = unshare();
        unshare.args(["--net", PROGRAM, "exec"]);
        run(unshare.args(options).args(["--", "sh", "-c", "exit 44"]))
    };
    exec(&["--no-proxy-ok=0s"])?.expect(44)?;
    exec(&["--ready-timeout", "300ms", "--gate-timeout", "300ms"])?
        .expect(2)?
        .stderr_contains("cannot be reached")?
        .stderr_contains("there is nothing to end")?;
    Ok(())
}
