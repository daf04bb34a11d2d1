//! `cargo docs`: builds the documentation site in `target/site/book` with mdBook. Its pages are the
//! Markdown files of the repository as they are; `docs/SUMMARY.md` orders them. Links to other
//! files lead to the repository's address, and a link that leads nowhere is an error.

use std::error::Error;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SUMMARY: &str = "docs/SUMMARY.md";
/// Where files that are no pages can be read.
const FILES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/tree/main");

fn main() -> ExitCode {
    match build() {
        Ok(book) => {
            println!("{}", book.join("index.html").display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Outcome<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let site = Path::new(ROOT).join(target).join("site");
    if site.exists() {
        fs::remove_dir_all(&site)?;
    }
    for file in output("git", &["ls-files", "*.md", "docs/*.png"])?.lines() {
        write_page(file, &site.join("src"))?;
    }
    for file in ["book.toml", "site.css"] {
        fs::copy(Path::new(ROOT).join("docs").join(file), site.join(file))?;
    }
    let book = site.join("book");
    run(&tool("mdbook")?, &["build", &site.display().to_string()])?;
    run(&tool("hyperlink")?, &["--check-anchors", &book.display().to_string()])?;
    Ok(book)
}

/// Copies a file. The links of the summary are relative to the folder that gets it.
fn write_page(file: &str, pages: &Path) -> Outcome {
    let source = Path::new(ROOT).join(file);
    let page = pages.join(if file == SUMMARY { "SUMMARY.md" } else { file });
    fs::create_dir_all(page.parent().unwrap_or(pages))?;
    if file.ends_with(".md") {
        let text = fs::read_to_string(source).map_err(|error| format!("`{file}`: {error}"))?;
        fs::write(page, with_links(file, &text))?;
    } else {
        fs::copy(source, page)?;
    }
    Ok(())
}

/// The text with links that lead somewhere on the site.
fn with_links(file: &str, text: &str) -> String {
    let mut parts = text.split("](");
    let mut page = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        page.push_str("](");
        let (link, rest) = part.split_once(')').unwrap_or((part, ""));
        match linked_file(file, link) {
            Some(target) if file == SUMMARY => page.push_str(&target),
            Some(target) if !is_page(&target) => page.push_str(&format!("{FILES}/{target}")),
            _ => page.push_str(link),
        }
        if part.len() > link.len() {
            page.push(')');
        }
        page.push_str(rest);
    }
    page
}

fn is_page(target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    path != SUMMARY && (path.ends_with(".md") || path.ends_with(".png"))
}

/// The file of the repository to which a link leads, relative to the repository, with its anchor.
fn linked_file(file: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with('#') {
        return None;
    }
    let mut whole = PathBuf::from(file);
    whole.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::Normal(name) => whole.push(name),
            _ => {}
        }
    }
    let target = whole.display().to_string();
    let path = Path::new(ROOT).join(target.split('#').next().unwrap_or_default());
    path.exists().then_some(target)
}

/// The path of a program of `.ci/tools.sh`, which is installed if it is missing.
fn tool(name: &str) -> Outcome<String> {
    let folder = output("bash", &["-c", &format!(". .ci/tools.sh && tool_{name}")])?;
    Ok(format!("{}/{name}", folder.trim_end()))
}

fn output(program: &str, arguments: &[&str]) -> Outcome<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(ROOT)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("`{program}` does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{program} {}` failed", arguments.join(" ")).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn run(program: &str, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(program);
    command.env("MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL", env!("CARGO_PKG_REPOSITORY"));
    if command.args(arguments).status()?.success() {
        return Ok(());
    }
    Err(format!("`{program} {}` failed", arguments.join(" ")).into())
}
