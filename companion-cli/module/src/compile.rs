//! Compiles `filter/` for wasm32 with a separate cargo, and links it with the exports that are
//! named here.
//!
//! Standard library only: the build scripts include this very file, so that a build of the
//! workspace and `laststream build` cannot make two different modules.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The target that the module is built for: no WASI, so the module can ask the proxy for nothing
/// but the proxy-wasm calls.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// The exports of the module, beside its memory. The SDK defines all callbacks, and Envoy calls
/// those that are exported: with a callback for bodies it would enter the VM for each chunk, and
/// `proxy_on_log` would panic after the end of an HTTP/3 stream. rustc exports all callbacks and
/// has no option against it, so it makes a library, and the toolchain's linker makes the module.
pub const EXPORTS: [&str; 10] = [
    "_initialize",
    "malloc",
    "proxy_abi_version_0_2_1",
    "proxy_on_configure",
    "proxy_on_context_create",
    "proxy_on_delete",
    "proxy_on_http_call_response",
    "proxy_on_request_headers",
    "proxy_on_tick",
    GUARD,
];

/// The function of `filter/src/raw.rs` that stands in front of the SDK's callback, and the name
/// under which Envoy looks for it. Both functions are symbols, so they cannot have the same name,
/// and neither rustc nor the linker can export a function under another one.
const GUARD: &str = "guard_on_queue_ready";
const GUARDED: &str = "proxy_on_queue_ready";
const _: () = assert!(GUARD.len() == GUARDED.len());

/// Additional exports of the frame filter's module. On routes without the filter, Envoy creates no
/// context of it, so only routes with it pay for the calls.
const BODY_EXPORTS: [&str; 2] = ["proxy_on_request_body", "proxy_on_response_body"];

/// The feature of `filter/` that makes the module of the frame filter.
pub const FRAMES: &str = "frames";

/// By default the linker uses five bytes for each number that it fills in, which is a twelfth of
/// the module. Above a stack of a megabyte, addresses of data need four bytes; with a page less,
/// three. The stack lies below the data, so that an overflow traps.
const LINKER: [&str; 7] = [
    "--no-entry",
    "--gc-sections",
    "--strip-all",
    "--compress-relocations",
    "-z",
    "stack-size=983040",
    "--stack-first",
];

#[derive(Debug, Clone)]
pub struct Compile {
    /// The workspace that holds `filter/`.
    pub workspace: PathBuf,
    /// The folder for cargo's files. It must not be the folder of an outer cargo, which holds its
    /// lock: both would wait forever.
    pub target_dir: PathBuf,
    /// Features of `filter/` to turn on.
    pub features: Vec<String>,
    pub offline: bool,
    /// Whether the wasm32 target may be added to the toolchain if it is missing.
    pub may_install: bool,
    pub run_program: fn(&mut Command) -> io::Result<Output>,
}

#[derive(Debug, Clone)]
pub struct Compiled {
    pub wasm: PathBuf,
    /// Every source file that went into it, as the compiler names them.
    pub sources: Vec<PathBuf>,
}

impl Compile {
    /// Compiles, and adds the wasm32 target to the toolchain if it is missing and may be added.
    pub fn run(&self) -> Result<Compiled, String> {
        self.ensure_target()?;
        let linker = self.linker()?;
        self.finish(self.cargo(), "the module does not compile")?;
        let folder = self.target_dir.join(TARGET).join("wasm");
        let library = folder.join("liblaststream_filter.a");
        if !library.is_file() {
            return Err(format!("cargo succeeded but `{}` is not there", library.display()));
        }
        let is_for_frames = self.features.iter().any(|feature| feature == FRAMES);
        let name = if is_for_frames { "laststream_frames.wasm" } else { "laststream_filter.wasm" };
        let wasm = folder.join(name);
        let exports = EXPORTS.iter().chain(BODY_EXPORTS.iter().filter(|_| is_for_frames));
        self.finish(link(&linker, &library, &wasm, exports), "the module cannot be linked")?;
        rename_guard(&wasm)?;
        Ok(Compiled { sources: sources(&library.with_extension("d")), wasm })
    }

    /// The linker of the toolchain, which lies beside its libraries. Programs of that name
    /// elsewhere belong to other versions of LLVM.
    fn linker(&self) -> Result<PathBuf, String> {
        let way_out = "install Rust with rustup (https://rustup.rs), whose toolchains have it";
        let folder = self
            .rustc(&["--print", "target-libdir"])
            .ok_or("`rustc --print target-libdir` failed")?;
        let linker = Path::new(folder.trim())
            .with_file_name("bin")
            .join(format!("rust-lld{}", std::env::consts::EXE_SUFFIX));
        if !linker.is_file() {
            return Err(format!(
                "the Rust toolchain has no linker for WebAssembly, `{}`: {way_out}",
                linker.display()
            ));
        }
        Ok(linker)
    }

    fn cargo(&self) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(&self.workspace)
            .args([
                "rustc",
                "--package",
                "laststream-filter",
                "--lib",
                "--crate-type",
                "staticlib",
                "--locked",
            ])
            .args(["--profile", "wasm", "--target", TARGET])
            .arg("--target-dir")
            .arg(&self.target_dir);
        if self.offline {
            cargo.arg("--offline");
        }
        if !self.features.is_empty() {
            cargo.arg("--features").arg(self.features.join(","));
        }
        // Settings of an outer cargo, clippy or coverage run for its own compiler must not affect
        // the module.
        for (name, _) in std::env::vars_os() {
            if is_outer(&name) {
                cargo.env_remove(name);
            }
        }
        cargo.env("CARGO_ENCODED_RUSTFLAGS", self.rustflags()).env("CARGO_INCREMENTAL", "0");
        cargo
    }

    /// Flags that remap the paths of the machine, which end up in panic messages: without them two
    /// users get the same bytes.
    ///
    /// LLVM inlines a function that has one caller, however large it is, and V8 needs more memory
    /// for one large function than for its parts. The first flag makes instructions more expensive
    /// for the inliner: the first worker needs 2.7 MB less.
    fn rustflags(&self) -> OsString {
        let home = std::env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(std::env::home_dir()?.join(".cargo")));
        let prefixes = [(self.workspace.clone(), "/laststream".to_owned())];
        let pairs = prefixes
            .into_iter()
            .chain(home.map(|home| (home, "/cargo".to_owned())))
            .chain(self.standard_library());
        let mut flags = OsString::from("-Cllvm-args=-inline-instr-cost=200");
        for (from, to) in pairs {
            flags.push("\u{1f}--remap-path-prefix=");
            flags.push(from);
            flags.push("=");
            flags.push(to);
        }
        flags
    }

    /// The folder of the standard library's sources, and the compiler's name for it if they are not
    /// installed.
    fn standard_library(&self) -> Option<(PathBuf, String)> {
        let sysroot = self.rustc(&["--print", "sysroot"])?;
        let version = self.rustc(&["--version", "--verbose"])?;
        let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "))?;
        Some((Path::new(sysroot.trim()).join("lib/rustlib/src/rust"), ["/rustc/", commit].concat()))
    }

    fn ensure_target(&self) -> Result<(), String> {
        if self.has_target() {
            return Ok(());
        }
        let way_out = format!("run `rustup target add {TARGET}`");
        if !self.may_install {
            return Err(format!(
                "the Rust target `{TARGET}` is missing and may not be installed by this build: \
                    {way_out}"
            ));
        }
        let mut rustup = Command::new("rustup");
        rustup.current_dir(&self.workspace).args(["target", "add", TARGET]);
        match (self.run_program)(&mut rustup) {
            Ok(output) if output.status.success() && self.has_target() => Ok(()),
            Ok(output) => Err(format!(
                "the Rust target `{TARGET}` is missing and rustup could not add it: {}\n{way_out}",
                String::from_utf8_lossy(&output.stderr).trim_end()
            )),
            Err(error) => Err(format!(
                "the Rust target `{TARGET}` is missing and rustup cannot be started ({error}): \
                    {way_out}"
            )),
        }
    }

    /// Whether the toolchain can compile for wasm32.
    pub fn has_target(&self) -> bool {
        self.rustc(&["--print", "target-libdir", "--target", TARGET])
            .is_some_and(|folder| Path::new(folder.trim()).is_dir())
    }

    /// The standard output of rustc, or `None` if it fails.
    fn rustc(&self, question: &[&str]) -> Option<String> {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.current_dir(&self.workspace).args(question);
        let output = (self.run_program)(&mut rustc).ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn finish(&self, mut command: Command, failed: &str) -> Result<(), String> {
        let output = (self.run_program)(&mut command).map_err(|error| {
            format!("cannot start `{}`: {error}", command.get_program().display())
        })?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{failed} ({}):\n{}", output.status, stderr.trim_end()));
        }
        Ok(())
    }
}

fn link<'a>(
    linker: &Path,
    library: &Path,
    module: &Path,
    exports: impl Iterator<Item = &'a &'a str>,
) -> Command {
    let mut link = Command::new(linker);
    link.args(["-flavor", "wasm"])
        .args(LINKER)
        .args(exports.map(|name| format!("--export={name}")))
        .arg(library)
        .arg("-o")
        .arg(module);
    link
}

/// Replaces the name of an export by one of the same length, so that nothing else has to change.
fn rename_guard(module: &Path) -> Result<(), String> {
    let cannot = |why: String| format!("cannot rename `{GUARD}` in `{}`: {why}", module.display());
    let mut code = std::fs::read(module).map_err(|error| cannot(error.to_string()))?;
    let is_name = |place: &usize| code[*place..].starts_with(GUARD.as_bytes());
    let places: Vec<usize> = (0..code.len()).filter(is_name).collect();
    let [place] = places[..] else {
        return Err(cannot(format!("the name stands there {} times", places.len())));
    };
    code[place..place + GUARDED.len()].copy_from_slice(GUARDED.as_bytes());
    std::fs::write(module, code).map_err(|error| cannot(error.to_string()))
}

/// Whether a variable must not reach the cargo of the module. Of cargo's own variables, that cargo
/// gets only those for folders, downloads, parallel jobs and the terminal.
fn is_outer(name: &OsString) -> bool {
    let Some(name) = name.to_str() else { return false };
    let for_all = [
        "CARGO_HOME",
        "CARGO_MAKEFLAGS",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
    ];
    let of_outer = [
        "CARGO_",
        "CLIPPY_",
        "LLVM_PROFILE_",
        "RUSTC_BOOTSTRAP",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTFLAGS",
    ];
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    begins(&of_outer) && !begins(&for_all)
}

/// Reads the list of sources that cargo leaves beside its output: `output: source source …`, spaces
/// escaped.
fn sources(dep_info: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(dep_info).unwrap_or_default();
    let Some((_, list)) = text.split_once(": ") else { return Vec::new() };
    let escaped = list.trim().replace("\\ ", "\0");
    escaped.split_whitespace().map(|path| PathBuf::from(path.replace('\0', " "))).collect()
}
