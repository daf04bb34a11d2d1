//! Checksums, archives and the bill of materials.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use laststream_release::{
    CHECKSUMS, FORMULA, PLUGIN, Platform, VERSION, command_image, frames_image, hook_image,
    module_image, program_archive, sbom_file, shell_archive,
};

use super::{FILES, Release, names, run, unpacked};
use crate::docs::commands;
use crate::lab::envoyless_cases;
use kit::prelude::*;
use kit::process::guarded;
use kit::programs::program;
use kit::user::User;
use kit::{command, workspace};

/// Names the key that signs the checksums.
const KEY: &str = "LASTSTREAM_SIGNING_KEY";

envoyless_cases! {
    checksums_cover_every_file,
    checksums_are_signed_with_the_owners_key,
    the_same_inputs_give_the_same_bytes,
    programs_run_from_their_archives,
    completions_and_manual_pages_are_complete,
    the_bill_of_materials_does_not_depend_on_the_machine,
}

fn checksums_cover_every_file() -> Outcome {
    let release = Release::get()?;
    run(guarded("sha256sum").args(["--check", "--strict", CHECKSUMS]).current_dir(release.path()))?;
    let mut expected: BTreeSet<String> = Platform::ALL.map(program_archive).into();
    expected.extend([
        command_image(),
        frames_image(),
        hook_image(),
        module_image(),
        shell_archive(),
        sbom_file(),
        PLUGIN.to_owned(),
        FORMULA.to_owned(),
    ]);
    let text = String::from_utf8(release.read(CHECKSUMS)?)?;
    let named: BTreeSet<String> =
        text.lines().filter_map(|line| Some(line.split_once("  ")?.1.to_owned())).collect();
    ensure_eq!(named, expected, "files with a checksum");
    let there: BTreeSet<String> =
        names(release.path())?.into_iter().filter(|name| !name.starts_with(CHECKSUMS)).collect();
    ensure_eq!(there, expected, "files in the folder");
    Ok(())
}

/// By the function of `.ci/run release`; the command of docs/release.md checks the signature.
fn checksums_are_signed_with_the_owners_key() -> Outcome {
    let (user, keygen) = (User::new()?, program("ssh-keygen")?);
    run(user.command(&keygen).args("-q -t ed25519 -f key -C owner -N".split(' ')).arg(""))?;
    user.file(CHECKSUMS, "the checksums\n")?;
    let path = [keygen.parent().context("a folder")?, "/usr/bin".as_ref(), "/bin".as_ref()];
    let path = std::env::join_paths(path)?;
    let bash = |script: &str| {
        let mut command = user.command("bash");
        command.args(["-euc", script]).env("PATH", &path).env(KEY, user.path("key"));
        command
    };
    let sign = format!("source .ci/release.sh; sign_checksums {}", user.path("").display());
    run(bash(&sign).current_dir(workspace()))?;
    let key = fs::read_to_string(user.path("key.pub"))?;
    user.file("laststream.signers", format!("owner {key}"))?;
    let check = commands("docs/release.md", "ssh-keygen")?;
    run(&mut bash(&check))?.stdout_contains("Good \"file\" signature for owner")?;
    user.file(CHECKSUMS, "other checksums\n")?;
    let refused = command::run(&mut bash(&check))?;
    ensure!(refused.code == Some(255), "another file has the signature: {}", refused.stdout);
    Ok(())
}

fn the_same_inputs_give_the_same_bytes() -> Outcome {
    let (first, second) = (Release::make()?, Release::make()?);
    for name in names(first.path())? {
        ensure!(first.read(&name)? == second.read(&name)?, "{name} differs");
    }
    Ok(())
}

fn programs_run_from_their_archives() -> Outcome {
    let release = Release::get()?;
    for platform in Platform::ALL {
        let target = platform.target();
        let folder = unpacked(&release.file(&program_archive(platform)))?;
        ensure_eq!(names(folder.path())?, ["LICENSE", "laststream"], "files of {target}");
        let program = folder.path().join("laststream");
        let mode = fs::metadata(&program)?.permissions().mode() & 0o777;
        ensure_eq!(mode, 0o755, "permissions of {target}");
        ensure!(is_for(platform, &fs::read(&program)?), "the program is not for {target}");
        if target.starts_with(std::env::consts::ARCH) {
            let text = run(guarded(&program).arg("version"))?.stdout;
            let begin = format!("laststream     {VERSION}\n");
            ensure!(text.starts_with(&begin), "`laststream version` prints {text}");
        }
    }
    Ok(())
}

/// Whether a program is for a platform, by the machine in its ELF header. The scripts that stand
/// for programs contain the name of their target.
fn is_for(platform: Platform, program: &[u8]) -> bool {
    let machine: u16 = match platform {
        Platform::Amd64 => 62,
        Platform::Arm64 => 183,
    };
    if program.starts_with(b"\x7fELF") {
        return program.get(18..20) == Some(&machine.to_le_bytes());
    }
    String::from_utf8_lossy(program).contains(platform.target())
}

fn completions_and_manual_pages_are_complete() -> Outcome {
    let release = Release::get()?;
    let folder = unpacked(&release.file(&shell_archive()))?;
    let shells = names(&folder.path().join("completions"))?;
    ensure_eq!(
        shells,
        ["_laststream", "_laststream.ps1", "laststream.bash", "laststream.elv", "laststream.fish"],
        "completions"
    );
    run(guarded("bash").arg("-n").arg(folder.path().join("completions/laststream.bash")))?;
    let pages = folder.path().join("man/man1");
    for page in
        ["laststream.1", "laststream-lint.1", "laststream-render.1", "laststream-config-check.1"]
    {
        let text = fs::read_to_string(pages.join(page)).with_context(|| page.to_owned())?;
        ensure!(text.contains(".TH laststream"), "{page} is no manual page");
    }
    Ok(())
}

/// The listed packages are checked only if the real files are given, because only they list
/// packages.
fn the_bill_of_materials_does_not_depend_on_the_machine() -> Outcome {
    let release = Release::get()?;
    let bytes = release.read(&sbom_file())?;
    let sbom: Value = serde_json::from_slice(&bytes)?;
    ensure_eq!(sbom["bomFormat"], "CycloneDX", "the format");
    ensure!(
        sbom["serialNumber"].is_null() && sbom["metadata"]["timestamp"].is_null(),
        "a number or a time is in it"
    );
    let text = String::from_utf8(bytes)?;
    for path in [env!("CARGO_MANIFEST_DIR"), &std::env::var("HOME")?, "path+file"] {
        ensure!(!text.contains(path), "`{path}` is in the bill of materials");
    }
    if std::env::var_os(FILES).is_none() {
        return Ok(());
    }
    let listed: BTreeSet<&str> = sbom["components"]
        .as_array()
        .context("components")?
        .iter()
        .filter_map(|one| one["purl"].as_str())
        .collect();
    for platform in Platform::ALL {
        for package in packages(platform)? {
            ensure!(
                listed.contains(package.as_str()),
                "{package} is in a program but not in the bill of materials"
            );
        }
    }
    Ok(())
}

/// The packages from the registry that cargo compiles into the program, as package URLs. Macros and
/// what they need run on the machine that compiles.
fn packages(platform: Platform) -> Outcome<Vec<String>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["tree", "--offline", "--locked", "--package", "laststream"]);
    cargo.args(["--target", platform.target()]);
    cargo
        .args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let text = run(&mut cargo)?.stdout;
    let packages = text.lines().filter(|line| !line.contains('/'));
    let urls = packages
        .filter_map(|line| line.split(" (").next()?.split_once(" v"))
        .map(|(name, version)| format!("pkg:cargo/{name}@{version}"));
    let urls: Vec<String> = urls.collect();
    ensure!(urls.len() > 50, "cargo tree shows {urls:?} only");
    Ok(urls)
}
