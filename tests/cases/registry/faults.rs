//! Temporary errors are retried from the beginning, permanent ones are not, and no tag ever points
//! to a partially uploaded image.

use std::time::{Duration, Instant};

use super::push;
use crate::lab::envoyless_cases;
use kit::fake_server::{Answer, Fault};
use kit::prelude::*;
use kit::registry::faulty::{Faulty, Operation, PUSH, error};
use kit::registry::sha256;
use kit::user::User;

envoyless_cases! {
    a_temporary_error_passes,
    a_lasting_fault_ends_the_push,
    permanent_errors_are_not_retried,
    retry_after_is_obeyed,
    a_silent_registry_times_out,
    an_invalid_answer_is_an_error,
    another_digest_is_an_error,
    published_tags_are_reported_after_a_failure,
    no_tag_changes_before_all_blobs_are_uploaded,
}

/// One request for an operation fails, in each way.
fn a_temporary_error_passes() -> Outcome {
    let statuses =
        [408, 429, 500, 502, 503, 504].map(|status| Fault::Answer(error(status, "TROUBLE")));
    let faults: Vec<_> =
        statuses.into_iter().chain([Fault::Cut, Fault::CutBody, Fault::CutAnswer]).collect();
    for operation in PUSH {
        for fault in &faults {
            passes(operation, fault.clone())
                .with_context(|| format!("{fault:?} at {operation:?}"))?;
        }
    }
    Ok(())
}

fn passes(operation: Operation, fault: Fault) -> Outcome {
    let is_cut_answer = matches!(fault, Fault::CutAnswer);
    let faulty = Faulty::start(move |_, now, before| {
        (now == operation && before == 0).then(|| fault.clone())
    })?;
    let said = push(&User::new()?, &["-o", "json", &faulty.image()])?.expect(0)?;
    let said = said.stderr_contains("trying again in 0.5 s")?;
    let manifest = faulty.manifest("laststream", "1").context("nothing was published")?;
    ensure_eq!(said.json_lines()?[0]["digest"], sha256(&manifest), "the digest");
    // Each upload uses a separate session. A blob that arrived before its answer was cut is not
    // sent again.
    let (begun, uploads) = (faulty.count(Operation::BeginUpload), faulty.count(Operation::Upload));
    let is_sent_again = operation == Operation::Upload && !is_cut_answer;
    ensure!(uploads <= if is_sent_again { 3 } else { 2 }, "{uploads} uploads");
    let has_lost_a_session = operation == Operation::BeginUpload && is_cut_answer;
    ensure!(has_lost_a_session || begun >= uploads, "a session was used twice");
    Ok(())
}

fn a_lasting_fault_ends_the_push() -> Outcome {
    for operation in PUSH {
        let faulty = Faulty::failing(operation, Fault::Answer(error(503, "TROUBLE")))?;
        let said = push(&User::new()?, &["--retries", "1", &faulty.image()])?.expect(2)?;
        let words = if operation == Operation::LookForBlob {
            "status 503"
        } else {
            "status 503 (TROUBLE: says the registry)"
        };
        said.stderr_contains(words)?.stderr_contains("no tag has changed")?;
        ensure_eq!(faulty.count(operation), 2, "{operation:?}: tries");
        ensure!(faulty.has_no_manifest(), "{operation:?}: something was published");
    }
    Ok(())
}

fn permanent_errors_are_not_retried() -> Outcome {
    for status in [400, 401, 403, 404, 405, 413, 501] {
        for operation in [Operation::BeginUpload, Operation::Upload, Operation::PutManifest] {
            let faulty = Faulty::failing(operation, Fault::Answer(error(status, "NO")))?;
            let said = push(&User::new()?, &[&faulty.image()])?.expect(2)?;
            said.stderr_contains(&format!("status {status} (NO: says the registry)"))?
                .stderr_contains("no tag has changed")?;
            ensure_eq!(faulty.count(operation), 1, "{status} at {operation:?}: tries");
            ensure!(faulty.has_no_manifest(), "{status} at {operation:?}: something was published");
        }
    }
    // The answer to a HEAD has no error text, so after a refusal the upload shows the error.
    // Without credentials there is no upload.
    let faulty = Faulty::failing(Operation::LookForBlob, Fault::Answer(error(403, "NO")))?;
    push(&User::new()?, &[&faulty.image()])?.expect(0)?;
    let faulty = Faulty::failing(Operation::LookForBlob, Fault::Answer(error(401, "NO")))?;
    push(&User::new()?, &[&faulty.image()])?.expect(2)?;
    ensure_eq!(faulty.asked().len(), 2, "requests");
    Ok(())
}

fn retry_after_is_obeyed() -> Outcome {
    let busy = |wait: &'static str| {
        let answer = error(429, "TOOMANYREQUESTS").with("retry-after", wait);
        Faulty::start(move |_, now, before| {
            (now == Operation::BeginUpload && before == 0).then(|| Fault::Answer(answer.clone()))
        })
    };
    let began = Instant::now();
    let faulty = busy("2")?;
    push(&User::new()?, &[&faulty.image()])?.expect(0)?.stderr_contains("trying again in 2 s")?;
    ensure!(began.elapsed() >= Duration::from_secs(2), "only {:?}", began.elapsed());
    let faulty = busy("3600")?;
    let said = push(&User::new()?, &[&faulty.image()])?.expect(2)?;
    said.stderr_contains("status 429")?.stderr_contains("it wants to be left alone for 3600 s")?;
    ensure_eq!(faulty.count(Operation::BeginUpload), 1, "tries");
    Ok(())
}

fn a_silent_registry_times_out() -> Outcome {
    for operation in PUSH {
        let faulty = Faulty::failing(operation, Fault::Silence(Duration::from_secs(300)))?;
        let said = push(&User::new()?, &["--timeout", "1", "--retries", "1", &faulty.image()])?
            .expect(2)?;
        // The time limit of an upload is one second longer for every 64 KiB that it sends; the
        // module has between two and three times as much.
        let seconds = if operation == Operation::Upload { 3 } else { 1 };
        said.stderr_contains(&format!(
            "nothing came for {seconds} s while waiting for its answer"
        ))?;
        ensure_eq!(faulty.count(operation), 2, "{operation:?}: tries");
        ensure!(faulty.has_no_manifest(), "{operation:?}: something was published");
    }
    Ok(())
}

/// The push ends soon, with an error and not with a panic.
fn an_invalid_answer_is_an_error() -> Outcome {
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 201 \xff\xfe\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 202 x\r\ncontent-length: nine\r\n\r\n",
        b"HTTP/1.1 202 x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 401 x\r\nwww-authenticate: Bearer realm=\"http://[::\"\r\ncontent-length: 0\r\n\
          \r\n",
        b"HTTP/1.1 307 x\r\nlocation: http://[::/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 202 x\r\nlocation: http://us er/\r\ncontent-length: 0\r\n\r\n",
    ] {
        let faulty = Faulty::failing(Operation::BeginUpload, Fault::Bytes(bytes))?;
        let said = push(&User::new()?, &["--retries", "0", "--timeout", "2", &faulty.image()])?;
        said.expect(2)
            .with_context(|| String::from_utf8_lossy(bytes).into_owned())?
            .hides("panicked")?;
        ensure!(faulty.has_no_manifest(), "something was published");
    }
    Ok(())
}

fn another_digest_is_an_error() -> Outcome {
    let other = sha256(b"something else");
    for operation in [Operation::Upload, Operation::PutManifest] {
        let faulty =
            Faulty::failing(operation, Fault::Header("docker-content-digest", other.clone()))?;
        let said = push(&User::new()?, &[&faulty.image()])?.expect(2)?;
        said.stderr_contains(&format!("the registry says `{other}`, but it is `sha256:"))?;
        ensure_eq!(faulty.count(operation), 1, "{operation:?}: tries");
    }
    Ok(())
}

/// The second tag is refused: the first stays published, and the error names it.
fn published_tags_are_reported_after_a_failure() -> Outcome {
    let faulty = Faulty::start(|asked, _, _| {
        asked.path().ends_with("/manifests/2").then(|| Fault::Answer(Answer::new(403)))
    })?;
    let image = |tag: &str| format!("{}/laststream:{tag}", faulty.name());
    let said = push(&User::new()?, &[&image("1"), &image("2"), &image("3")])?.expect(2)?;
    let said = said
        .stderr_contains(&format!("already published: `{}`", image("1")))?
        .stderr_contains("answers with status 403")?;
    ensure_eq!(said.stdout, "", "data");
    let are_there = ["1", "3"].map(|tag| faulty.manifest("laststream", tag).is_some());
    ensure_eq!(are_there, [true, false], "whether the first tag and the last one are there");
    Ok(())
}

fn no_tag_changes_before_all_blobs_are_uploaded() -> Outcome {
    let good = Faulty::start(|_, _, _| None)?;
    let full = Faulty::failing(Operation::Upload, Fault::Answer(error(413, "FULL")))?;
    let images = [good.image(), full.image()];
    push(&User::new()?, &[&images[0], &images[1]])?
        .expect(2)?
        .stderr_contains("status 413")?
        .stderr_contains("no tag has changed")?;
    ensure_eq!(good.count(Operation::Upload), 2, "blobs that were sent");
    ensure!(good.has_no_manifest() && full.has_no_manifest(), "something was published");
    Ok(())
}
