//! Exit codes and streams of bytes pass as they are.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::{fs, thread};

use kit::Outcome;
use kit::command::run;

use crate::beside::support::{PROGRAM, Proxy};

const QUICK: [&str; 2] = ["--end-proxy", "never"];

#[test]
fn exit_codes_pass() -> Outcome {
    let proxy = Proxy::start()?;
    for code in [0, 1, 2, 63, 64, 126, 127, 128, 129, 137, 143, 254, 255] {
        let output =
            run(&mut proxy.exec(&QUICK, ["sh", "-c", &format!("exit {code}")]))?.expect(code)?;
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
    }
    Ok(())
}

#[test]
fn commands_that_cannot_be_run_have_the_exit_codes_of_shells() -> Outcome {
    let proxy = Proxy::start()?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str, mode| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let cases = [
        ("no-such-command-anywhere".to_owned(), 127),
        (file("interpreted", "#!/no/such/interpreter\n", 0o755), 127),
        (file("plain", "#!/bin/sh\nexit 0\n", 0o644), 126),
        (file("text", "no program\n", 0o755), 126),
        (folder.path().display().to_string(), 126),
        (String::new(), 127),
    ];
    for (command, code) in cases {
        run(&mut proxy.exec(&QUICK, [&command]))?
            .expect(code)?
            .stderr_contains(&format!("`{command}`"))?;
    }
    Ok(())
}

#[test]
fn bytes_pass_in_both_directions() -> Outcome {
    let proxy = Proxy::start()?;
    let bytes: Vec<u8> =
        (0..1_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut child = proxy
        .exec(&QUICK, ["sh", "-c", "cat; echo told >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, sent) = (child.stdin.take().unwrap(), bytes.clone());
    let writer = thread::spawn(move || input.write_all(&sent));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
    assert_eq!(output.stderr, b"told\n");
    Ok(())
}

#[test]
fn arguments_are_not_parsed_by_a_shell() -> Outcome {
    let proxy = Proxy::start()?;
    let arguments = ["printf", "%s|", "$HOME", "a b", "*", "-x", "--gate", "", "'", "--", "end"];
    assert_eq!(run(&mut proxy.exec(&QUICK, arguments))?.stdout, "$HOME|a b|*|-x|--gate||'|--|end|");
    Ok(())
}

/// Ignored signals stay ignored, and others are not ignored: `nohup` works, and broken pipes end
/// commands as always.
#[test]
fn the_command_inherits_the_signal_dispositions() -> Outcome {
    let proxy = Proxy::start()?;
    let ask = "grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status";
    let direct = |before: &str| {
        run(Command::new("sh").args(["-c", &format!("{before} exec sh -c \"{ask}\"")]))
    };
    let beside = |before: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{before} exec \"$@\""), "sh"]);
        let exec = proxy.exec(&QUICK, ["sh", "-c", ask]);
        // without `env`, which would change the signals
        run(command.args(exec.get_args().skip(1)))
    };
    for before in ["", "trap '' HUP;", "trap '' INT QUIT;"] {
        let expected = direct(before)?.stdout;
        assert!(!expected.is_empty());
        assert_eq!(beside(before)?.stdout, expected, "{before}");
    }
    Ok(())
}

#[test]
fn many_starts_leave_nothing_behind() -> Outcome {
    let proxy = Proxy::start()?;
    let marker = format!("laststream-exec-{}", std::process::id());
    let address = proxy.url("/ready");
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (marker, address) = (marker.clone(), address.clone());
            thread::spawn(move || {
                for _ in 0..60 {
                    let mut command = Command::new(PROGRAM);
                    command.args(["exec", "--ready-url", &address]).args(QUICK);
                    command.args(["--", "sh", "-c", "exit 9", &marker]);
                    assert_eq!(run(&mut command).unwrap().code, Some(9));
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let leaked: Vec<_> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(&marker))
        .collect();
    assert!(leaked.is_empty(), "{} processes are left", leaked.len());
    Ok(())
}

/// A command that prints its environment into a log would print the secrets.
#[test]
fn laststreams_secrets_are_not_passed_to_the_command() -> Outcome {
    let proxy = Proxy::start()?;
    let mut exec = proxy.exec(&QUICK, ["env"]);
    for name in
        ["LASTSTREAM_SECRET", "LASTSTREAM_REGISTRY_USERNAME", "LASTSTREAM_REGISTRY_PASSWORD"]
    {
        exec.env(name, "hunter2");
    }
    exec.env("LASTSTREAM_OFFLINE", "1").env("DOCKER_CONFIG", "/docker");
    let output = run(&mut exec)?
        .expect(0)?
        .hides("hunter2")?
        .hides("LASTSTREAM_SECRET")?
        // Variables without secrets stay.
        .stdout_contains("LASTSTREAM_OFFLINE=1")?
        .stdout_contains("DOCKER_CONFIG=/docker")?;
    assert_eq!(output.stderr, "");
    Ok(())
}

/// Hooks and probes start the program again and again. The test compares processor time, which
/// depends little on other processes: the least of several runs, and that of `--version`.
#[test]
fn starting_takes_little_of_the_processor() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.answer("GET /ready", 200, r#"{"state": "drained", "reason": "x", "holding": 0}"#);
    let gate = proxy.url("");
    let nothing = least_processor_time("--version")?;
    for arguments in [
        format!("status --gate {gate}"),
        format!("wait --gate {gate}"),
        format!("exec --gate {gate} --ready-url {gate}/ready --end-proxy never -- true"),
    ] {
        let least = least_processor_time(&arguments)?;
        assert!(least < 2.0 * nothing + 0.01, "{arguments}: {least} s, nothing: {nothing} s");
    }
    Ok(())
}

/// The least processor time of ten runs, in seconds.
fn least_processor_time(arguments: &str) -> Outcome<f64> {
    let timed = format!("TIMEFORMAT='%U %S'; time {PROGRAM} {arguments} >/dev/null");
    let mut least = f64::INFINITY;
    for _ in 0..10 {
        let times = run(Command::new("bash").args(["-c", &timed]))?.expect(0)?.stderr;
        let seconds: Result<Vec<f64>, _> = times.split_whitespace().map(str::parse).collect();
        least = least.min(seconds?.iter().sum());
    }
    Ok(least)
}
