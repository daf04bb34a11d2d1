//! `run --watch`: changes while Envoy runs, and the roll-back of those that it rejects.

use kit::Outcome;
use kit::h1::Request;

use crate::run::support::{Run, module, put, send, unwilling};

#[test]
fn an_invalid_update_is_reported_and_the_previous_one_stays_active() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (policy, plugin) = (folder.path().join("policy.yaml"), folder.path().join("plugin.wasm"));
    let trusting = "forwarded_proto: {presets: [gcp], trust: {peers: [127.0.0.0/8]}}";
    std::fs::write(&policy, trusting)?;
    module(&plugin, b'0');
    let mut run =
        Run::start_in(folder, &["--policy", "policy.yaml", "--module", "plugin.wasm", "--watch"])?;
    let is_trusted = |run: &Run| {
        let request = Request::get("/").header("x-forwarded-proto", "https");
        let body = send(run.place("listener"), &request).unwrap().expect(200).unwrap().text();
        body.contains(r#""x_forwarded_proto": "https""#)
    };
    assert!(is_trusted(&run));

    put(&policy, b"forwarded_proto: {presets: [gcp], trust: {peers: [127.0.0.1/8]}}");
    run.wait_for_stderr("forwarded_proto.trust.peers[0]")?;
    run.wait_for_stderr("the previous policy stays active")?;
    assert!(is_trusted(&run));

    put(&policy, b"");
    run.wait_for_stderr("policy.yaml: is empty: write `{}`")?;
    assert!(is_trusted(&run));

    std::fs::remove_file(&policy)?;
    run.wait_for_stderr("No such file")?;
    assert!(is_trusted(&run));

    put(&plugin, b"no module");
    run.wait_for_stderr("the previous module stays active")?;
    assert!(is_trusted(&run));

    put(&plugin, &unwilling(1 << 20));
    run.wait_for_stderr(
        "the new module is rejected, the previous one stays active: Envoy refuses it",
    )?;
    assert!(is_trusted(&run));

    put(&policy, b"drain: {deadline: 9s}");
    run.wait_for_stderr("the new policy is in place")?;
    assert!(!is_trusted(&run), "what is whole again is taken, with the module from before");
    module(&plugin, b'1');
    run.wait_for_stderr("the new module is in place")?;
    assert_eq!(run.status()?["scopes"][0]["begun"], 7);
    run.interrupt()?;
    run.finish()?.expect(0)?;
    Ok(())
}

/// The gate's configuration is the longer one: its filter takes this module, the counting one does
/// not.
#[test]
fn an_update_that_one_of_two_filters_rejects_is_rolled_back() -> Outcome {
    let folder = tempfile::tempdir()?;
    let plugin = folder.path().join("plugin.wasm");
    module(&plugin, b'0');
    let mut run = Run::start_in(folder, &["--module", "plugin.wasm", "--watch"])?;
    put(&plugin, &unwilling(60));
    run.wait_for_stderr("Envoy refuses it")?;
    assert_eq!(run.get("/")?.status, 200);
    let status = run.status()?;
    assert_eq!(
        (&status["state"], &status["scopes"][0]["begun"]),
        (&"serving".into(), &1.into()),
        "{status}"
    );
    run.interrupt()?;
    run.finish()?.expect(0)?;
    Ok(())
}
