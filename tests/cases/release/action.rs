//! `action.yml`, as GitHub's runner would run it: the steps' scripts in bash, with a release in a
//! local folder instead of on the web.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use laststream_release::{Platform, VERSION, program_archive};
use tempfile::TempDir;

use super::{BAD, BROKEN_RULE, GOOD, POLICY, Release, run};
use crate::lab::envoyless_cases;
use kit::command;
use kit::prelude::*;
use kit::process::guarded;
use kit::programs::program;
use kit::user::User;

envoyless_cases! {
    the_action_fits_githubs_schema,
    findings_are_written_and_fail_the_action,
    good_files_in_every_line_of_paths_pass,
    the_place_of_the_releases_has_no_default,
    stale_files_fail_the_action,
    a_modified_archive_is_not_run,
}

const ACTION: &str = include_str!("../../../action.yml");

/// Also, no script contains an input, because the input would be run as code.
fn the_action_fits_githubs_schema() -> Outcome {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("action.yml");
    run(guarded(program("check-jsonschema")?)
        .args(["--builtin-schema", "vendor.github-actions"])
        .arg(file))?;
    let action = action()?;
    ensure_eq!(
        action["inputs"]["version"]["default"],
        VERSION,
        "the version that the action fetches"
    );
    for step in steps(&action)? {
        ensure!(!script(step)?.contains("${{"), "an expression is in the script of {step:#}");
    }
    Ok(())
}

fn findings_are_written_and_fail_the_action() -> Outcome {
    let runner = Runner::new()?;
    runner.user.file("bad.yaml", BAD)?;
    let ended = runner.run(&[("sarif", "found.sarif")])?.fails(&found())?;
    ensure_eq!(ended.sarif, Some(runner.user.path("found.sarif")), "the output");
    let rules = ended.rules()?;
    ensure!(rules.contains(&BROKEN_RULE.to_owned()), "the findings are {rules:?}");
    Ok(())
}

/// The words of the log about [`BAD`].
fn found() -> String {
    format!("error[{BROKEN_RULE}]")
}

fn good_files_in_every_line_of_paths_pass() -> Outcome {
    let runner = Runner::new()?;
    runner.user.file("one folder/good.yaml", GOOD)?;
    runner.user.file("two/bad.yaml", BAD)?;
    let ended = runner.run(&[("paths", "one folder\n"), ("istio", "1.29")])?.passes()?;
    ensure_eq!(ended.rules()?, Vec::<String>::new(), "findings");
    let rules = runner.run(&[("paths", "one folder\ntwo\n")])?.fails(&found())?.rules()?;
    ensure!(rules.contains(&BROKEN_RULE.to_owned()), "the findings are {rules:?}");
    Ok(())
}

/// The owner of a default address could publish another program there, with its checksums.
fn the_place_of_the_releases_has_no_default() -> Outcome {
    let action = action()?;
    ensure_eq!(action["inputs"]["releases"].get("default"), None, "the default place");
    Runner::new()?.run(&[("releases", "")])?.fails("the input releases").map(drop)
}

/// Stale files are shown even if lint has already failed.
fn stale_files_fail_the_action() -> Outcome {
    let runner = Runner::new()?;
    runner.user.file("policy.yaml", POLICY)?;
    let inputs = [("paths", "deploy"), ("policy", "policy.yaml"), ("rendered", "deploy")];
    let render = ["render", "all", "--policy", "policy.yaml", "--output-dir", "deploy"];
    runner.user.run(&render, "")?.expect(0)?;
    runner.run(&inputs)?.passes()?;
    runner.user.file("deploy/bad.yaml", BAD)?;
    let file = runner.user.path("deploy/envoyfilter.yaml");
    fs::write(&file, fs::read_to_string(&file)? + "# edited\n")?;
    runner.run(&inputs)?.fails(&found())?.fails("# edited").map(drop)
}

fn a_modified_archive_is_not_run() -> Outcome {
    let runner = Runner::new()?;
    let archive = runner.release.file(&program_archive(Platform::Amd64));
    let copy = runner.releases.path().join(format!("v{VERSION}"));
    fs::remove_file(&copy)?;
    fs::create_dir(&copy)?;
    fs::copy(runner.release.file("SHA256SUMS"), copy.join("SHA256SUMS"))?;
    fs::write(copy.join(program_archive(Platform::Amd64)), [fs::read(archive)?, vec![0]].concat())?;
    let ended = runner.run(&[])?.fails("FAILED")?;
    ensure!(ended.sarif.is_none(), "lint has run");
    Ok(())
}

/// A job on a runner: the user with the checkout, and a place with the release.
struct Runner {
    release: Release,
    releases: TempDir,
    user: User,
}

/// The result of a run of the action.
struct Ended {
    is_success: bool,
    log: String,
    sarif: Option<PathBuf>,
    /// The runner's temporary folder.
    temp: TempDir,
}

impl Runner {
    fn new() -> Outcome<Self> {
        let release = Release::get()?;
        let releases = release.place()?;
        Ok(Self { release, releases, user: User::new()? })
    }

    /// Runs the steps. After a failed step, only steps with a condition that allows it run.
    fn run(&self, given: &[(&str, &str)]) -> Outcome<Ended> {
        let action = action()?;
        let inputs = self.inputs(&action, given)?;
        let mut ended =
            Ended { is_success: true, log: String::new(), sarif: None, temp: tempfile::tempdir()? };
        for step in steps(&action)? {
            if is_due(step, &inputs, ended.is_success)? {
                let output = command::run(&mut self.command(step, &inputs, ended.temp.path())?)?;
                ended.is_success &= output.code == Some(0);
                ended.log.extend([output.stdout, output.stderr]);
            }
        }
        ensure_eq!(
            action["outputs"]["sarif"]["value"],
            "${{ steps.lint.outputs.sarif }}",
            "the output"
        );
        let outputs = fs::read_to_string(ended.temp.path().join("output")).unwrap_or_default();
        ended.sarif = outputs
            .lines()
            .find_map(|line| line.strip_prefix("sarif="))
            .map(|file| self.user.path(file));
        Ok(ended)
    }

    fn inputs(&self, action: &Value, given: &[(&str, &str)]) -> Outcome<HashMap<String, String>> {
        let declared = action["inputs"].as_object().context("inputs")?;
        let defaults = declared.iter().map(|(name, input)| {
            (name.clone(), input["default"].as_str().unwrap_or_default().to_owned())
        });
        let mut inputs: HashMap<String, String> = defaults.collect();
        inputs.insert("releases".to_owned(), format!("file://{}", self.releases.path().display()));
        for (name, value) in given {
            ensure!(
                inputs.insert((*name).to_owned(), (*value).to_owned()).is_some(),
                "the action has no input {name}"
            );
        }
        Ok(inputs)
    }

    /// The command with which the runner starts bash. The HTTPS proxy does not exist, so nothing
    /// can reach the web.
    fn command(
        &self,
        step: &Value,
        inputs: &HashMap<String, String>,
        temp: &Path,
    ) -> Outcome<Command> {
        ensure_eq!(step["shell"], "bash", "the shell");
        let file = temp.join("script.sh");
        fs::write(&file, script(step)?)?;
        let found = fs::read_to_string(temp.join("path")).unwrap_or_default();
        let curl = program("curl")?.parent().context("a folder")?.display().to_string();
        let path: Vec<&str> = found.lines().chain([curl.as_str(), "/usr/bin", "/bin"]).collect();
        let mut command = self.user.command("bash");
        command
            .args(["--noprofile", "--norc", "-e", "-o", "pipefail"])
            .arg(file)
            .env("PATH", path.join(":"))
            .env("HOME", temp)
            .env("RUNNER_TEMP", temp)
            .env("https_proxy", "http://127.0.0.1:9")
            .env("GITHUB_PATH", temp.join("path"))
            .env("GITHUB_OUTPUT", temp.join("output"));
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            command.env(name, evaluated(value.as_str().context("text")?, inputs)?);
        }
        Ok(command)
    }
}

impl Ended {
    fn passes(self) -> Outcome<Self> {
        ensure!(self.is_success, "{}", self.log);
        Ok(self)
    }

    /// The run fails, and its log contains these words.
    fn fails(self, words: &str) -> Outcome<Self> {
        ensure!(!self.is_success && self.log.contains(words), "`{words}` is not in {}", self.log);
        Ok(self)
    }

    /// The rules of the findings.
    fn rules(&self) -> Outcome<Vec<String>> {
        let sarif: Value = serde_json::from_slice(&fs::read(
            self.sarif.as_ref().context("a file with findings")?,
        )?)?;
        ensure_eq!(sarif["version"], "2.1.0", "the version of SARIF");
        let results = sarif["runs"][0]["results"].as_array().context("results")?;
        Ok(results
            .iter()
            .filter_map(|result| result["ruleId"].as_str().map(str::to_owned))
            .collect())
    }
}

fn action() -> Outcome<Value> {
    Ok(serde_saphyr::from_str(ACTION)?)
}

fn steps(action: &Value) -> Outcome<&Vec<Value>> {
    ensure_eq!(action["runs"]["using"], "composite", "the kind of action");
    action["runs"]["steps"].as_array().context("steps")
}

fn script(step: &Value) -> Outcome<&str> {
    step["run"].as_str().context("a script")
}

/// Evaluates an expression in a step's environment. Only inputs are allowed there.
fn evaluated<'a>(expression: &str, inputs: &'a HashMap<String, String>) -> Outcome<&'a str> {
    let name = expression.strip_prefix("${{ inputs.").and_then(|rest| rest.strip_suffix(" }}"));
    let value = name.and_then(|name| inputs.get(name));
    value
        .map(String::as_str)
        .with_context(|| format!("`{expression}` is not an input of the action"))
}

fn is_due(step: &Value, inputs: &HashMap<String, String>, is_success: bool) -> Outcome<bool> {
    match step["if"].as_str() {
        None => Ok(is_success),
        Some("${{ !cancelled() && inputs.rendered != '' }}") => Ok(!inputs["rendered"].is_empty()),
        Some(other) => bail!("this test does not know the condition `{other}`"),
    }
}
