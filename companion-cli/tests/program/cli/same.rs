//! The hook's program and the whole one give the same answers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kit::command::{CommandOutput, run};
use kit::fake_server::{Answer, Fault, Replies};
use kit::{Outcome, user};

use crate::cli::support::PROGRAM;

/// A reply of the gate to every request, the arguments, the exit code, and a part of the output.
type Row = (Result<Answer, Fault>, &'static str, i32, &'static str);

const OPEN: &str = r#"{"state": "drained", "reason": "no stream is in flight", "holding": 0}"#;
const CUT: &str = r#"{"state": "expired", "reason": "the deadline came", "holding": 2}"#;
const CLOSED: &str = r#"{"state": "draining", "reason": "2 streams", "holding": 2}"#;
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
    12\r\n{\"state\":\"drained\"\r\n10;x=y\r\n,\"reason\":\"all\"}\r\n0\r\n\r\n";
const WITHOUT_LENGTH: &[u8] =
    b"HTTP/1.1 200 OK\r\n\r\n{\"state\": \"forced\", \"reason\": \"an operator\"}";
const OTHER_PROTOCOL: &[u8] = b"SSH-2.0-OpenSSH_9.9\r\n\r\n";
const ELSEWHERE: &[u8] = b"HTTP/1.1 302 x\r\nlocation: http://127.0.0.1:1/\r\n\r\n";
/// Asks once.
const ONCE: &str = "prestop --timeout 0s --gate GATE";
const EXEC: &str = "exec --gate GATE --ready-url GATE/ready --ready-timeout 300ms \
    --gate-timeout 300ms --quit-url http://127.0.0.1:1/ --quit-timeout 300ms";

fn rows() -> Vec<Row> {
    let answer = |status, body: &str| Ok(Answer::new(status).body(body));
    vec![
        (answer(200, OPEN), ONCE, 0, "drained: no stream is in flight"),
        (answer(200, OPEN), "prestop --output json --gate GATE", 0, OPEN),
        (answer(200, CUT), ONCE, 0, "2 streams are in flight, and are cut"),
        (answer(200, CUT), "wait --gate GATE", 1, "expired: the deadline came"),
        (answer(200, OPEN), "wait --gate GATE", 0, "drained"),
        (answer(503, CLOSED), ONCE, 1, "draining: 2 streams"),
        (answer(503, CLOSED), "prestop --timeout 400ms --gate GATE", 1, "not open after 400ms"),
        (answer(503, ""), ONCE, 2, "its VM is not there"),
        (answer(403, r#"{"reason": "why"}"#), ONCE, 2, "it refuses: why"),
        (
            answer(403, r#"{"reason": "why"}"#),
            "prestop --timeout 3s --gate GATE",
            2,
            "the gate still refuses after 3s",
        ),
        (answer(200, "<html>"), ONCE, 2, "is this a gate?"),
        (Err(Fault::Bytes(CHUNKED)), ONCE, 0, "drained: all"),
        (Err(Fault::Bytes(WITHOUT_LENGTH)), ONCE, 0, "forced: an operator"),
        (Err(Fault::Bytes(ELSEWHERE)), ONCE, 2, "status 302"),
        (Err(Fault::Bytes(OTHER_PROTOCOL)), ONCE, 2, "cannot be asked"),
        (Err(Fault::Cut), ONCE, 2, "the connection broke off"),
        (Err(Fault::CutAnswer), ONCE, 2, "the connection broke off"),
        (Err(half(OPEN, Duration::ZERO)), ONCE, 2, "the connection broke off"),
        (Err(half(OPEN, Duration::from_secs(3))), ONCE, 2, "no answer within 1000 ms"),
        (Err(Fault::Silence(Duration::from_secs(3))), ONCE, 2, "no answer within 1000 ms"),
        (Ok(Answer::new(200).body(vec![b' '; 5 << 20])), ONCE, 2, "larger than 4194304 bytes"),
        (answer(200, OPEN), "prestop --timeout 0s --gate http://127.0.0.1:1", 2, "no program"),
        (answer(200, OPEN), "prestop --timeout 0s --gate http://a.invalid", 2, "no such host"),
        (answer(200, OPEN), "prestop --gate https://127.0.0.1", 64, "plain HTTP"),
        (answer(200, OPEN), "prestop --gate GATE --secret-file none", 2, "cannot be read"),
        (answer(200, OPEN), "prestop --time 1s", 64, "a similar argument exists: '--timeout'"),
        (answer(200, OPEN), "prestop --help", 0, "Usage: laststream prestop [OPTIONS]"),
        (answer(200, OPEN), "exec --help", 0, "Usage: laststream exec [OPTIONS] <COMMAND>..."),
        (answer(200, OPEN), "exec", 64, "<COMMAND>..."),
        (answer(200, OPEN), "install none", 2, "`none` is not a folder"),
        (answer(200, ""), "EXEC --end-proxy never -- sh -c 'exit 7'", 7, ""),
        (answer(200, ""), "EXEC --end-proxy never -- none", 127, "`none` was not found"),
        (answer(200, ""), "EXEC -- true", 0, "there is no gate at GATE"),
        (answer(503, ""), "EXEC -- true", 2, "not ready after 300ms"),
        (Err(Fault::Silence(Duration::from_secs(3))), "EXEC -- true", 2, "no answer within"),
    ]
}

/// Half of a body, then a pause before the connection ends.
fn half(body: &str, pause: Duration) -> Fault {
    Fault::Part(Answer::new(200).body(body), body.len() / 2, pause)
}

#[test]
fn both_programs_give_the_same_answers() -> Outcome {
    let folder = tempfile::tempdir()?;
    let programs = [("hook", user::hook()?), ("whole", Path::new(PROGRAM))]
        .map(|(name, program)| named(folder.path(), name, program));
    for (reply, arguments, code, text) in rows() {
        let [hook, whole] = [&programs[0], &programs[1]]
            .map(|program| answer(program, &reply, arguments).unwrap().expect(code).unwrap());
        assert!((hook.stdout.clone() + &hook.stderr).contains(text), "{arguments}: {hook:?}");
        assert_eq!(
            (&hook.stdout, &hook.stderr),
            (&whole.stdout, &whole.stderr),
            "{arguments}, {reply:?}"
        );
    }
    Ok(())
}

/// The program under the name that it has in images.
fn named(folder: &Path, name: &str, program: &Path) -> PathBuf {
    let path = folder.join(name).join("laststream");
    fs::create_dir(folder.join(name)).unwrap();
    symlink(program, &path).unwrap();
    path
}

/// What the program says; `GATE` stands for the address of the gate.
fn answer(
    program: &Path,
    reply: &Result<Answer, Fault>,
    arguments: &str,
) -> Outcome<CommandOutput> {
    let replies = Replies::default();
    for line in ["GET /prestop", "GET /ready", "GET /status"] {
        replies.set(line, reply.clone());
    }
    let gate = replies.serve()?.url("");
    let script = format!("exec \"$0\" {}", arguments.replace("EXEC", EXEC).replace("GATE", &gate));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(program);
    command.env_remove("LASTSTREAM_GATE").env_remove("LASTSTREAM_SECRET");
    let mut output = run(&mut command)?;
    for text in [&mut output.stdout, &mut output.stderr] {
        *text = text.replace(&gate, "GATE");
    }
    Ok(output)
}
