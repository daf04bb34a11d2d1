//! Links between the documents of the repository: files, folders and anchors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::{markdown_options, read, root};
use kit::prelude::*;

/// The anchors of a document and the targets of its links.
pub(super) struct Document {
    pub(super) anchors: BTreeSet<String>,
    links: Vec<String>,
}

pub(super) fn lead_somewhere() -> Outcome {
    let mut documents = BTreeMap::new();
    // The links of the rules' texts are those of LINT.md, which is made from them.
    for file in files(&["md"])?.into_iter().filter(|file| !file.ends_with("/rules.md")) {
        let text = read(&file)?;
        documents.insert(file, Document::of(&text));
    }
    ensure!(documents.len() > 20, "few documents: {:?}", documents.keys());
    let mut broken = Vec::new();
    for (file, document) in &documents {
        for link in &document.links {
            broken.extend(
                trouble(file, link, &documents)
                    .map(|trouble| format!("{file} links to {link}: {trouble}")),
            );
        }
    }
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

/// Every file of the repository with one of these extensions, by its path in it.
pub(super) fn files(extensions: &[&str]) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    collect(&root(), extensions, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, extensions: &[&str], found: &mut Vec<String>) -> Outcome {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry.context("a folder")?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, extensions, found)?;
        } else if name.rsplit_once('.').is_some_and(|(_, end)| extensions.contains(&end)) {
            found.push(path.strip_prefix(root()).unwrap_or(&path).display().to_string());
        }
    }
    Ok(())
}

impl Document {
    pub(super) fn of(text: &str) -> Self {
        let (mut anchors, mut links, mut heading) = (BTreeSet::new(), Vec::new(), None);
        for event in Parser::new_ext(text, markdown_options()) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    insert(&mut anchors, &heading.take().unwrap_or_default())
                }
                Event::Text(part) | Event::Code(part) => {
                    heading.iter_mut().for_each(|text| text.push_str(&part))
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push(dest_url.into_string())
                }
                _ => {}
            }
        }
        Self { anchors, links }
    }
}

/// As GitHub does: the second heading with the same words gets `-1`, the third `-2`.
fn insert(anchors: &mut BTreeSet<String>, heading: &str) {
    let plain = anchor(heading);
    let numbered = (1..).map(|number| format!("{plain}-{number}"));
    let free =
        std::iter::once(plain.clone()).chain(numbered).find(|anchor| !anchors.contains(anchor));
    anchors.extend(free);
}

/// The anchor that GitHub makes from a heading: no punctuation, hyphens for blanks.
pub(super) fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-")
}

/// The reason why a link is broken, or `None`.
fn trouble(file: &str, link: &str, documents: &BTreeMap<String, Document>) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { file.to_owned() } else { beside(file, path) };
    if !root().join(&target).exists() {
        return Some("there is no such file".into());
    }
    let has = |document: &Document| document.anchors.contains(anchor);
    (!anchor.is_empty() && !documents.get(&target).is_some_and(has))
        .then(|| format!("{target} has no such heading"))
}

/// A path that is relative to a file's folder, relative to the repository.
fn beside(file: &str, path: &str) -> String {
    let mut whole = PathBuf::from(file);
    whole.pop();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::Normal(name) => whole.push(name),
            _ => {}
        }
    }
    whole.display().to_string()
}
