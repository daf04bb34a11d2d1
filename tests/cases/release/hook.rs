//! `.pre-commit-hooks.yaml`, run by the real pre-commit in a repository of a user.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use super::{BAD, GOOD, POLICY, run};
use crate::lab::envoyless_cases;
use kit::command::{self, CommandOutput};
use kit::process::guarded;
use kit::programs::program;
use kit::user::{User, laststream};
use kit::{Outcome, workspace};

envoyless_cases! {
    the_manifest_is_valid,
    lint_checks_all_files_of_the_folder,
    stale_files_are_found,
}

const HOOKS: &str = ".pre-commit-hooks.yaml";
const TAG: &str = "v0";

fn the_manifest_is_valid() -> Outcome {
    run(guarded(program("pre-commit")?).arg("validate-manifest").arg(manifest())).map(drop)
}

fn manifest() -> PathBuf {
    workspace().join(HOOKS)
}

/// Only the second file changes, and its error exists only together with the first file.
fn lint_checks_all_files_of_the_folder() -> Outcome {
    let user = Repository::new("laststream-lint", &["mesh"])?;
    user.file("mesh/one.yaml", GOOD)?;
    user.file("elsewhere/bad.yaml", BAD)?;
    user.expect_pass()?;
    user.git(&["commit", "--quiet", "--message", "one"])?;
    user.file("mesh/two.yaml", &GOOD.replacen("  name: laststream\n", "  name: other\n", 1))?;
    user.expect_failure("error[LS121]")
}

fn stale_files_are_found() -> Outcome {
    let checks = ["--policy", "policy.yaml", "--check", "deploy"];
    let user = Repository::new("laststream-render-check", &checks)?;
    user.file("policy.yaml", POLICY)?;
    let render = "render all --policy policy.yaml --output-dir deploy";
    run(user.command(laststream()?).args(render.split(' ')))?;
    user.git(&["add", "."])?;
    user.expect_pass()?;
    user.file("deploy/envoyfilter.yaml", GOOD)?;
    user.expect_failure("envoyfilter.yaml")
}

/// A user's repository in the folder `work`, beside one with the hooks.
struct Repository {
    user: User,
}

impl Repository {
    fn new(hook: &str, arguments: &[&str]) -> Outcome<Self> {
        let mut user = User::new()?;
        let bin = user.path("bin").display().to_string();
        user.set("PATH", bin + ":/usr/local/bin:/usr/bin:/bin");
        for role in ["AUTHOR", "COMMITTER"] {
            user.set(&format!("GIT_{role}_NAME"), "user");
            user.set(&format!("GIT_{role}_EMAIL"), "user@example.com");
        }
        symlink(laststream()?, user.path("bin/laststream"))?;
        publish_hooks(&user)?;
        fs::create_dir(user.path("work"))?;
        let repository = Self { user };
        repository.git(&["init", "--quiet"])?;
        let hooks = json!({
            "repos": [
                {
                    "repo": repository.user.path("hooks"), "rev": TAG,
                    "hooks": [{ "id": hook, "args": arguments }],
                },
            ],
        });
        repository.file(".pre-commit-config.yaml", &hooks.to_string())?; // JSON is YAML
        Ok(repository)
    }

    /// Writes a file and stages it.
    fn file(&self, name: &str, text: &str) -> Outcome {
        self.user.file(&format!("work/{name}"), text)?;
        self.git(&["add", name])
    }

    fn git(&self, arguments: &[&str]) -> Outcome {
        run(self.command("git").args(arguments)).map(drop)
    }

    fn expect_pass(&self) -> Outcome {
        self.pre_commit()?.expect(0)?.stdout_contains("Passed").map(drop)
    }

    fn expect_failure(&self, reason: &str) -> Outcome {
        self.pre_commit()?.expect(1)?.stdout_contains("Failed")?.stdout_contains(reason).map(drop)
    }

    /// Runs the hook for the staged files.
    fn pre_commit(&self) -> Outcome<CommandOutput> {
        let mut command = self.command(program("pre-commit")?);
        command::run(command.args(["run", "--color", "never"]))
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.user.command(program);
        command.current_dir(self.user.path("work"));
        command
    }
}

/// Makes a repository that has the hooks under a tag.
fn publish_hooks(user: &User) -> Outcome {
    user.file(&format!("hooks/{HOOKS}"), fs::read(manifest())?)?;
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "."],
        &["commit", "--quiet", "--message", "hooks"],
        &["tag", TAG],
    ] {
        run(user.command("git").current_dir(user.path("hooks")).args(arguments))?;
    }
    Ok(())
}
