//! C: the verdicts of `lint` beside those of the API server. The table in the command line is made
//! from the CRDs of released versions; here it is compared with them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use laststream_lint::crds::{Definition, Definitions};
use laststream_lint::{Assume, Severity, SourceFile, lint};

use super::world::World;
use crate::parts::part;
use crate::seen::row;
use kit::prelude::*;

/// The releases whose CRDs the cluster gets; it has Istio's own already.
pub(super) const OTHERS: [&str; 2] = ["gateway-api-1.6", "envoy-gateway-1.9"];

/// The files of the part `crds`, one for each release.
fn releases() -> Outcome<Vec<(String, PathBuf)>> {
    let folder = part("crds")?.parent().context("a folder")?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().context("a name")?.to_string_lossy().into_owned();
        files.push((name, path));
    }
    files.sort();
    Ok(files)
}

fn table_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("companion-cli/lint/engine/src/crds/table.tsv.gz")
}

/// C1: the table in the command line is the one made from the CRDs of the Go modules.
pub(super) async fn table() -> Outcome {
    let mut all = Vec::new();
    for (release, file) in releases()? {
        let text = fs::read_to_string(&file)?;
        let definitions = Definition::of_crds(&release, &text)?;
        all.push((release, definitions));
    }
    let made = Definition::table(all);
    if std::env::var_os("LASTSTREAM_BLESS").is_some() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(made.as_bytes())?;
        fs::write(table_file(), packed.finish()?)?;
    }
    let mut written = String::new();
    GzDecoder::new(fs::File::open(table_file())?).read_to_string(&mut written)?;
    ensure!(
        made == written,
        "the table is not what the modules say; `cargo bless measured` writes it anew"
    );
    row("C1", "CRDs of the Go modules", format!("{} schemas, the table's", made.lines().count()));
    Ok(())
}

/// C2: for each object, the API server's verdict is compared with lint's: with the built-in table,
/// and with the cluster's own CRDs.
pub(super) async fn verdicts() -> Outcome {
    let cluster = &World::get().await?.cluster;
    for release in OTHERS {
        cluster.definitions(release).await?;
    }
    let text = include_str!("crds/objects.yaml");
    let create = ["create", "--dry-run=server", "--validate=strict", "--filename=-"];
    let said = cluster.kubectl_with(&create, text).await?;
    let accepted: BTreeSet<&str> = said
        .stdout
        .lines()
        .filter_map(|line| line.strip_suffix(" created (server dry run)")?.split_once('/'))
        .map(|(_, name)| name)
        .collect();
    let own = cluster.run(&["get", "crd", "--output", "json"]).await?;
    let own = Definitions::from_files(Definition::of_crds("the cluster", &own)?);
    let names: Vec<&str> = text.lines().filter_map(name_of).collect();
    for (what, crds) in [("the built-in table", Definitions::default()), ("--crds", own)] {
        let refused = refused_by_lint(text, crds);
        let wrong: Vec<String> = names
            .iter()
            .filter(|name| accepted.contains(*name) == refused.contains(**name))
            .map(|name| format!("{name}: accepted {}", accepted.contains(name)))
            .collect();
        ensure!(
            wrong.is_empty(),
            "{what}: not the API server's verdict:\n{wrong:#?}\n{}",
            said.stderr
        );
    }
    let refused = names.len() - accepted.len();
    ensure!(refused >= 60, "only {refused} are refused");
    ensure_eq!(
        accepted.iter().all(|name| name.starts_with("good")),
        true,
        "the names say what is wrong"
    );
    row(
        "C2",
        format!("{} objects, the API server's verdict beside lint's", names.len()),
        format!("{refused} refused, {} accepted, by both", accepted.len()),
    );
    Ok(())
}

fn name_of(line: &str) -> Option<&str> {
    line.strip_prefix("metadata: {name: ")?.strip_suffix('}')
}

/// The names of the objects in which `lint` finds an error. An error of one of lint's own rules
/// counts too, because it may replace the finding of the schema.
fn refused_by_lint(text: &'static str, crds: Definitions) -> BTreeSet<&'static str> {
    let assume = Assume { crds, ..Assume::default() };
    let findings =
        lint(vec![SourceFile::new("objects.yaml", text.into())], assume).unwrap_or_default();
    let starts: Vec<(usize, &str)> =
        text.lines().enumerate().filter_map(|(line, text)| Some((line, name_of(text)?))).collect();
    // An object begins two lines before its name.
    let object_at = |line: usize| {
        starts.iter().rfind(|(start, _)| start - 2 <= line).map_or("", |(_, name)| *name)
    };
    findings
        .iter()
        .filter(|finding| finding.rule.severity == Severity::Error)
        .map(|finding| object_at(finding.line as usize - 1))
        .collect()
}
