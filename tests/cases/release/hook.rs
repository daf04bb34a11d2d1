//! `.pre-commit-hooks.yaml`, run by the real pre-commit in a repository of a user.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use super::{BAD, GOOD, POLICY, run};
use crate::lab::envoyless_cases;
use kit::process::guarded;
use kit::programs::program;
use kit::user;
use kit::{Outcome, command, ensure};

envoyless_cases! {
    the_manifest_is_valid,
    lint_checks_all_files_of_the_folder,
    stale_files_are_found,
}

const HOOKS: &str = ".pre-commit-hooks.yaml";
const TAG: &str = "v0";

fn the_manifest_is_valid() -> Outcome {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(HOOKS);
    run(guarded(program("pre-commit")?).arg("validate-manifest").arg(manifest)).map(drop)
}

/// Only the second file changes, and its error exists only together with the first file.
fn lint_checks_all_files_of_the_folder() -> Outcome {
    let user = User::new("laststream-lint", &["mesh"])?;
    user.file("mesh/one.yaml", GOOD)?;
    user.file("elsewhere/bad.yaml", BAD)?;
    user.expect_pass()?;
    user.git(&["commit", "--quiet", "--message", "one"])?;
    user.file("mesh/two.yaml", &GOOD.replacen("  name: laststream\n", "  name: other\n", 1))?;
    user.expect_failure("error[LS121]")
}

fn stale_files_are_found() -> Outcome {
    let user =
        User::new("laststream-render-check", &["--policy", "policy.yaml", "--check", "deploy"])?;
    user.file("policy.yaml", POLICY)?;
    let render = "render all --policy policy.yaml --output-dir deploy";
    run(user.command(user::laststream()?).args(render.split(' ')))?;
    user.git(&["add", "."])?;
    user.expect_pass()?;
    user.file("deploy/envoyfilter.yaml", GOOD)?;
    user.expect_failure("envoyfilter.yaml")
}

/// A user's repository, beside one with the hooks.
struct User {
    folder: TempDir,
}

impl User {
    fn new(hook: &str, arguments: &[&str]) -> Outcome<Self> {
        let user = Self { folder: tempfile::tempdir()? };
        for folder in ["bin", "hooks", "work"] {
            fs::create_dir(user.folder.path().join(folder))?;
        }
        symlink(user::laststream()?, user.folder.path().join("bin/laststream"))?;
        user.publish_hooks()?;
        user.git(&["init", "--quiet"])?;
        let hooks = json!({
            "repos": [
                {
                    "repo": user.folder.path().join("hooks"), "rev": TAG,
                    "hooks": [{ "id": hook, "args": arguments }],
                },
            ],
        });
        user.file(".pre-commit-config.yaml", &hooks.to_string())?; // JSON is YAML
        Ok(user)
    }

    /// Makes a repository that has the hooks under a tag.
    fn publish_hooks(&self) -> Outcome {
        let hooks = self.folder.path().join("hooks");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(HOOKS), hooks.join(HOOKS))?;
        for arguments in [
            &["init", "--quiet"][..],
            &["add", "."],
            &["commit", "--quiet", "--message", "hooks"],
            &["tag", TAG],
        ] {
            run(self.command(Path::new("git")).current_dir(&hooks).args(arguments))?;
        }
        Ok(())
    }

    /// Writes a file and stages it.
    fn file(&self, name: &str, text: &str) -> Outcome {
        let path = self.folder.path().join("work").join(name);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(path, text)?;
        self.git(&["add", name])
    }

    fn git(&self, arguments: &[&str]) -> Outcome {
        run(self.command(Path::new("git")).args(arguments)).map(drop)
    }

    fn expect_pass(&self) -> Outcome {
        let (is_success, log) = self.pre_commit()?;
        ensure!(is_success && log.contains("Passed"), "{log}");
        Ok(())
    }

    fn expect_failure(&self, reason: &str) -> Outcome {
        let (is_success, log) = self.pre_commit()?;
        ensure!(
            !is_success && log.contains("Failed") && log.contains(reason),
            "`{reason}` is not in {log}"
        );
        Ok(())
    }

    /// Runs the hook for the staged files.
    fn pre_commit(&self) -> Outcome<(bool, String)> {
        let mut command = self.command(&program("pre-commit")?);
        let output = command::run(command.args(["run", "--color", "never"]))?;
        Ok((output.code == Some(0), output.stdout + &output.stderr))
    }

    /// A command in the user's repository, without any of this machine's settings.
    fn command(&self, program: &Path) -> Command {
        let mut command = guarded(program);
        let path =
            format!("{}:/usr/local/bin:/usr/bin:/bin", self.folder.path().join("bin").display());
        command
            .env_clear()
            .current_dir(self.folder.path().join("work"))
            .env("PATH", path)
            .env("HOME", self.folder.path());
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "user")
                .env(format!("GIT_{role}_EMAIL"), "user@example.com");
        }
        command
    }
}
