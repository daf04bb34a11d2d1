//! The files of a release, made from programs that are compiled already. The bytes depend on the
//! inputs only, not on clock, user or machine. Compiling, and checking the result with other tools,
//! is not done here.

mod certificates;
mod files;
mod homebrew;
mod image;
mod inputs;
mod krew;
mod layout;
mod platform;
mod sbom;
mod shell;

use std::path::Path;

// All imports from the product.
pub(crate) use laststream_base::digest::Digest;
pub(crate) use laststream_base::yaml;
pub(crate) use laststream_module::analysis::ModuleKind;
pub(crate) use laststream_oci::image::{
    CONFIG, Descriptor, INDEX, Image, LAYER, MANIFEST, Manifest, Packed, archive, compress,
};

pub use files::{
    CHECKSUMS, FORMULA, PLUGIN, command_image, frames_image, hook_image, module_image,
    program_archive, sbom_file, shell_archive,
};
pub use inputs::{Inputs, Program};
pub use platform::Platform;

use crate::files::Files;
use laststream_base::causes::Context as _;

/// The version of everything in the release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
const LICENCE: &str = include_str!("../../LICENSE");

/// Writes all files of a release into the folder, which must be empty or missing.
///
/// # Errors
/// Says what failed. The folder may then hold some of the files, but no checksums.
pub fn write(inputs: &Inputs, folder: &Path) -> Result<(), String> {
    let mut files = Files::default();
    for platform in Platform::ALL {
        let program = inputs.program(Program::Whole, platform)?;
        files.add(program_archive(platform), packed_program(&program)?);
    }
    files.add(command_image(), image::of_program(inputs, Program::Whole)?);
    files.add(hook_image(), image::of_program(inputs, Program::Hook)?);
    files.add(
        module_image(),
        image::of_module(inputs, "module", ModuleKind::Module, laststream_module::builtin())?,
    );
    files.add(
        frames_image(),
        image::of_module(
            inputs,
            "frames",
            ModuleKind::FrameFilter,
            laststream_module::builtin_frames(),
        )?,
    );
    files.add(shell_archive(), shell::archive(inputs)?);
    files.add(sbom_file(), sbom::reproducible(&inputs.sbom)?);
    files.add(PLUGIN.to_owned(), krew::manifest(&files)?.into_bytes());
    files.add(FORMULA.to_owned(), homebrew::formula(&files)?.into_bytes());
    files.write(folder)
}

fn packed_program(program: &[u8]) -> Result<Vec<u8>, String> {
    let program = Packed { path: "laststream", mode: 0o755, bytes: program };
    let licence = Packed { path: "LICENSE", mode: 0o644, bytes: LICENCE.as_bytes() };
    compressed(&[program, licence], "the archive of the program")
}

fn compressed(files: &[Packed<'_>], what: &str) -> Result<Vec<u8>, String> {
    archive(files).and_then(|archive| compress(&archive)).context(what)
}
