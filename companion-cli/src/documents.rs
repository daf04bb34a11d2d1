//! Tests that the documents match the arguments: docs/cli.md is generated, and every command in a
//! document is parsed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};
use clap_markdown::{MarkdownOptions, help_markdown_command_custom};

use crate::cli::Arguments;
use crate::examples::calls;

#[test]
fn cli_md_is_made_from_the_arguments() {
    let path = root().join("docs/cli.md");
    let options = MarkdownOptions::new().title("The command line".into()).show_footer(false);
    let made = help_markdown_command_custom(&with_code_blocks(Arguments::shown()), &options);
    let made =
        format!("{}\n", made.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end());
    if std::env::var_os("LASTSTREAM_BLESS").is_some() {
        fs::write(&path, &made).expect("docs/cli.md");
    }
    assert!(
        fs::read_to_string(&path).expect("docs/cli.md") == made,
        "docs/cli.md is not what the arguments say; `cargo bless` writes it anew"
    );
}

/// Puts examples and exit codes into code blocks, because they have their own line breaks.
fn with_code_blocks(mut command: clap::Command) -> clap::Command {
    if let Some(help) = command.get_after_help() {
        let block = format!("```text\n{}\n```", help.to_string().trim_end());
        command = command.after_help(block);
    }
    let names: Vec<String> =
        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_code_blocks))
}

/// Blocks for a shell hold whole commands; in sentences only the command's name is checked.
#[test]
fn commands_in_the_documents_are_valid() {
    let mut shown = 0;
    for file in documents(&root()) {
        let text = fs::read_to_string(&file).expect("a document");
        let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        for call in blocks.flat_map(calls).filter(|call| !call.is_empty()) {
            let arguments = std::iter::once("laststream".to_owned()).chain(call.clone());
            if let Err(error) = Arguments::try_parse_from(arguments) {
                panic!("{} shows what is not taken: {call:?}\n{error}", file.display());
            }
            shown += 1;
        }
        for mention in text.split("`laststream ").skip(1) {
            let name =
                mention.split(|letter: char| !letter.is_alphabetic() && letter != '-').next();
            let name = name.unwrap_or_default().trim_end_matches('-');
            let is_command =
                name.is_empty() || Arguments::command().find_subcommand(name).is_some();
            assert!(is_command, "{}: there is no `laststream {name}`", file.display());
        }
    }
    assert!(shown > 20, "{shown} commands");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The documents at the top, in docs/ and docs/install/, and beside the rendered manifests.
fn documents(root: &Path) -> Vec<PathBuf> {
    let manifests = folder(&root.join("envoyfilter-manifests"));
    let folders = ["", "docs", "docs/install", "envoyfilter-manifests"];
    let folders = folders.map(|folder| root.join(folder)).into_iter().chain(manifests);
    let files = folders.filter(|path| path.is_dir()).flat_map(|path| folder(&path));
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

fn folder(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}
