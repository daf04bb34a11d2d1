//! What is changed while Envoy runs, and must not be taken.

use crate::client::Client;
use crate::support::{Run, module, put, unwilling};

#[test]
fn what_is_broken_is_told_and_the_old_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, plugin) = (folder.path().join("policy.yaml"), folder.path().join("plugin.wasm"));
    let trusting = "forwarded_proto: {presets: [gcp], trust: {peers: [127.0.0.0/8]}}";
    std::fs::write(&policy, trusting).unwrap();
    module(&plugin, b'0');
    let mut run = Run::start_in(folder, &["--policy", "policy.yaml", "--module", "plugin.wasm", "--watch"]);
    let is_trusted = |run: &Run| {
        let (status, body) = Client::new(run.place("listener")).get("/", "x-forwarded-proto: https\r\n").unwrap();
        assert_eq!(status, 200, "{body}");
        body.contains(r#""x_forwarded_proto": "https""#)
    };
    assert!(is_trusted(&run));

    put(&policy, b"forwarded_proto: {presets: [gcp], trust: {peers: [127.0.0.1/8]}}");
    run.until_it_says("forwarded_proto.trust.peers[0]");
    run.until_it_says("the policy before goes on");
    assert!(is_trusted(&run));

    std::fs::remove_file(&policy).unwrap();
    run.until_it_says("No such file");
    assert!(is_trusted(&run));

    put(&plugin, b"no module");
    run.until_it_says("the module before goes on");
    assert!(is_trusted(&run));

    put(&plugin, &unwilling());
    run.until_it_says("the new module is not taken, the one before goes on: Envoy refuses it");
    assert!(is_trusted(&run));

    put(&policy, b"drain: {deadline: 9s}");
    run.until_it_says("the new policy is in place");
    assert!(!is_trusted(&run), "what is whole again is taken, with the module from before");
    module(&plugin, b'1');
    run.until_it_says("the new module is in place");
    assert_eq!(run.status()["scopes"][0]["begun"], 6);
    run.interrupt();
    run.ended().expect(0);
}
