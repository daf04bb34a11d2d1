//! C4: the files that the tests of `lint` and the documentation use, object by object: the API
//! server refuses those in which lint finds an error of the API server's rules, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use laststream_lint::{Assume, Severity, SourceFile, gather, lint};

use super::crds::OTHERS;
use super::world::World;
use crate::cluster::Cluster;
use crate::isolation::folder;
use crate::release::Release;
use crate::seen::row;
use kit::prelude::*;

const FOLDERS: [&str; 3] =
    ["companion-cli/lint", "companion-cli/tests/lint", "envoyfilter-manifests"];
/// The groups of APIs whose objects lint compares with their schemas.
const GROUPS: [&str; 3] = [".istio.io/", "gateway.networking.k8s.io/", "gateway.envoyproxy.io/"];
/// The rules whose findings say that the API server refuses the object.
const OF_THE_SERVER: [&str; 6] = ["LS001", "LS004", "LS006", "LS007", "LS008", "LS009"];

/// An object, and the place where it begins.
struct Document {
    place: String,
    text: String,
}

/// What the API server says of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Refused,
    /// The server has no such kind, for example because its CRD is not installed.
    UnknownKind,
}

pub(super) async fn of_the_tests_files() -> Outcome {
    let cluster = &World::get().await?.cluster;
    for release in OTHERS {
        cluster.definitions(release).await?;
    }
    let documents = documents()?;
    apply_namespaces(cluster, &documents).await?;
    let verdicts = verdicts_of_server(cluster, &documents).await?;
    let mut differ = Vec::new();
    for (document, (verdict, said)) in documents.iter().zip(&verdicts) {
        if let Some(what) = difference(document, *verdict)? {
            differ.push(format!("{}: {what}; the server: {said}", document.place));
        }
    }
    ensure!(differ.is_empty(), "{} verdicts differ:\n{}", differ.len(), differ.join("\n"));
    let count = |wanted| verdicts.iter().filter(|(verdict, _)| *verdict == wanted).count();
    let (accepted, refused) = (count(Verdict::Accepted), count(Verdict::Refused));
    ensure!(accepted > 300 && refused > 5, "{accepted} accepted, {refused} refused");
    row(
        "C4",
        format!("{} objects of the tests' files and of the examples", documents.len()),
        format!("{refused} refused, {accepted} accepted, by both"),
    );
    Ok(())
}

/// The objects of [`GROUPS`] in all files.
fn documents() -> Outcome<Vec<Document>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents = Vec::new();
    for source in gather(&FOLDERS.map(|name| root.join(name)), &mut std::io::empty())? {
        let name = Path::new(&source.name).strip_prefix(root)?.display().to_string();
        let mut begin = 1;
        let mut text = String::new();
        let lines = source.text.as_deref().unwrap_or_default().lines();
        for (line, content) in (1..).zip(lines.chain(["---"])) {
            if content.starts_with("---") {
                let text = std::mem::take(&mut text);
                documents.push(Document { place: format!("{name}:{begin}"), text });
                begin = line + 1;
            } else {
                text = text + content + "\n";
            }
        }
    }
    documents.retain(|document| {
        let api = document.text.lines().find_map(|line| line.strip_prefix("apiVersion: "));
        // What is filled in later is not an object yet.
        let is_whole = !document.text.contains("${");
        is_whole && api.is_some_and(|api| GROUPS.iter().any(|group| api.contains(group)))
    });
    Ok(documents)
}

/// Makes the namespaces of all objects, because the API server accepts none in others.
async fn apply_namespaces(cluster: &Cluster, documents: &[Document]) -> Outcome {
    let words = documents.iter().flat_map(|document| document.text.split("namespace: ").skip(1));
    let is_of_name =
        |character: char| character.is_ascii_lowercase() || "-0123456789".contains(character);
    let names = words.filter_map(|rest| {
        let rest = rest.trim_start_matches('"');
        rest.split(|character| !is_of_name(character)).next().filter(|name| !name.is_empty())
    });
    let names: BTreeSet<&str> = names.collect();
    let namespaces = names.into_iter().map(
        |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
    );
    cluster.apply_all(&namespaces.collect::<Vec<_>>()).await
}

/// The verdict on each object, with the first line of the API server's error.
async fn verdicts_of_server(
    cluster: &Cluster,
    documents: &[Document],
) -> Outcome<Vec<(Verdict, String)>> {
    let folder = folder("verdicts")?;
    let file = |number: usize| folder.join(format!("{number:05}.yaml"));
    for (number, document) in documents.iter().enumerate() {
        fs::write(file(number), &document.text)?;
    }
    let path = folder.to_str().context("a path")?;
    let create = ["create", "--dry-run=server", "--validate=strict", "--filename", path];
    let said = cluster.kubectl(&create).await?;
    let mut taken = 0;
    let verdicts = (0..documents.len()).map(|number| {
        let file = file(number).display().to_string();
        let error = said.stderr.lines().find(|line| line.contains(&file));
        let verdict = match error {
            None => Verdict::Accepted,
            // Another case has an object of this name, and nothing else is wrong.
            Some(error) if error.contains("(AlreadyExists)") => {
                taken += 1;
                Verdict::Accepted
            }
            Some(error) if error.contains("no matches for kind") => Verdict::UnknownKind,
            Some(_) => Verdict::Refused,
        };
        (verdict, error.unwrap_or_default().to_owned())
    });
    let verdicts: Vec<_> = verdicts.collect();
    let created = said.stdout.lines().filter(|line| line.ends_with("(server dry run)")).count();
    let accepted =
        verdicts.iter().filter(|(verdict, _)| *verdict == Verdict::Accepted).count() - taken;
    ensure_eq!(created, accepted, "kubectl names no file of some errors: {}", said.stderr);
    Ok(verdicts)
}

/// How lint's findings in an object differ from the API server's verdict, if they do.
fn difference(document: &Document, verdict: Verdict) -> Outcome<Option<String>> {
    let source = SourceFile::new("object.yaml", document.text.clone().into_bytes());
    let istio = (Release::chosen()? == Release::Istio1_30).then_some((1, 30));
    let findings = lint(vec![source], Assume { istio, ..Assume::default() })?;
    let mut errors = findings.iter().filter(|finding| finding.rule.severity == Severity::Error);
    let of_server = |code: &str| OF_THE_SERVER.contains(&code);
    Ok(match verdict {
        Verdict::Accepted => errors
            .find(|finding| of_server(finding.rule.code))
            .map(|finding| format!("false alarm, {}: {}", finding.rule.code, finding.message)),
        // Another error may replace the finding of the schema.
        Verdict::Refused => errors.next().is_none().then(|| "lint is silent".into()),
        Verdict::UnknownKind => None,
    })
}
