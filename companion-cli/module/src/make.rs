//! Makes a module from a checkout: compiles it, optimises it if wanted, checks that it loads, and
//! writes it atomically.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use super::analysis::{Module, analyse};
use super::compile::{Compile, FRAMES, TARGET};
use super::optimise;
use laststream_base::causes::Context as _;
use laststream_base::children::{self, Scratch};
use laststream_base::files::{check_place, write_atomically};
use laststream_base::progress::Progress;

#[derive(Debug, Clone)]
pub struct Make {
    pub source: PathBuf,
    pub output: PathBuf,
    /// A folder that keeps cargo's files for the next build. Without it nothing old is used.
    pub target_dir: Option<PathBuf>,
    pub frames: bool,
    /// Whether to make the module smaller with `wasm-opt`.
    pub optimise: bool,
    /// Whether the wasm32 target may be added to the toolchain if it is missing.
    pub may_install: bool,
    pub offline: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct BuiltModule {
    pub path: PathBuf,
    pub size: u64,
    pub sha256: String,
    pub version: String,
    /// The compiler: another one gives other bytes.
    pub compiler: String,
    pub wasm_opt: Option<String>,
}

impl Make {
    /// Makes the module. The file at `output` is replaced only after the new module was checked.
    pub fn run(&self, progress: &dyn Progress) -> Result<BuiltModule, String> {
        // Checked first, because compiling takes a while.
        let output = format!("`{}`", self.output.display());
        check_place(&self.output).context(&output)?;
        let version = self.optimise.then(optimise::version).transpose()?;
        // Beside the sources, which stay as they are.
        let scratch = Scratch::new(tempfile::tempdir).context(std::env::temp_dir().display())?;
        let mut wasm = self.compile(scratch.path(), progress)?;
        if self.optimise {
            check(&read(&wasm)?)?;
            progress.started("optimising it");
            let smaller = scratch.path().join("optimised.wasm");
            optimise::optimise(&wasm, &smaller)?;
            wasm = smaller;
        }
        let bytes = read(&wasm)?;
        let module = check(&bytes)?;
        write_atomically(&self.output, &bytes).context(&output)?;
        Ok(BuiltModule {
            path: self.output.clone(),
            size: module.size,
            sha256: module.sha256,
            version: module.version.unwrap_or_default(),
            compiler: compiler(&self.source),
            wasm_opt: version,
        })
    }

    fn compile(&self, scratch: &Path, progress: &dyn Progress) -> Result<PathBuf, String> {
        let compile = Compile {
            workspace: self.source.clone(),
            target_dir: self.target_dir.clone().unwrap_or_else(|| scratch.join("target")),
            features: self.frames.then(|| FRAMES.to_owned()).into_iter().collect(),
            offline: self.offline,
            may_install: self.may_install,
            run_program: children::output,
        };
        if self.may_install && !compile.has_target() {
            progress.started(&format!("adding the Rust target {TARGET}"));
        }
        progress.started(&format!("compiling the module from {}", self.source.display()));
        Ok(compile.run()?.wasm)
    }
}

/// Rejects a module that Envoy would refuse, or that has no version of laststream.
fn check(bytes: &[u8]) -> Result<Module, String> {
    let unusable = |why: String| format!("the module that was made {why}");
    let module = analyse(bytes).map_err(unusable)?;
    if module.version.is_none() {
        return Err(unusable(
            "does not say which laststream it is: its custom section is gone".to_owned(),
        ));
    }
    Ok(module)
}

fn compiler(source: &Path) -> String {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    children::output(rustc.current_dir(source).arg("--version"))
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).context(format_args!("`{}`", path.display()))
}
