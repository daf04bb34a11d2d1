//! `run --module CHECKOUT`: a module that is compiled from its sources.

use kit::Outcome;
use kit::checkout::copy_checkout;

use crate::run::support::Run;

#[test]
fn a_checkout_is_compiled_again() -> Outcome {
    let folder = tempfile::tempdir()?;
    copy_checkout(folder.path())?;
    let mut run = Run::start_in(folder, &["--module", ".", "--watch"])?;
    let source = run.folder().join("filter/drain/src/requests/words.rs");
    let text = std::fs::read_to_string(&source)?;
    assert!(
        run.status()?["reason"] == "no drain was asked for"
            && text.contains("no drain was asked for")
    );

    std::fs::write(&source, format!("{text}\nthis is no Rust"))?;
    run.wait_for_stderr("the previous module stays active")?;
    assert!(run.stderr().contains("words.rs"), "where it is wrong: {}", run.stderr());
    assert_eq!(run.get("/")?.status, 200);

    std::fs::write(&source, text.replace("no drain was asked for", "all is calm"))?;
    run.wait_for_stderr("the new module is in place")?;
    assert_eq!(run.status()?["reason"], "all is calm");
    assert_eq!(run.status()?["scopes"][0]["begun"], 1);
    run.interrupt()?;
    run.finish()?.expect(0)?;
    Ok(())
}
