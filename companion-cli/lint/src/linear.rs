//! The work of each rule grows with the files, not with their square: looks at nodes are counted,
//! because times depend on the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::LINTER;
use manifest_lint::node::looks as looks_so_far;
use manifest_lint::{Assume, Findings, Inputs, SourceFile, gather};

/// The looks of each rule.
fn looks(sources: Vec<SourceFile>) -> BTreeMap<&'static str, u64> {
    let inputs = Inputs::read(&LINTER.program, sources, Assume::default()).unwrap();
    let looks = |rule: &'static crate::Rule| {
        let before = looks_so_far();
        let mut findings = Findings::new(rule, &inputs);
        rule.checks.iter().for_each(|check| check(&inputs, &mut findings));
        (rule.code, looks_so_far() - before)
    };
    LINTER.usual().map(looks).collect()
}

/// Twice the files may cost twice the looks, and a little more, because pairs are compared up to a
/// limit.
#[track_caller]
fn grows_linearly(sources: impl Fn(usize) -> Vec<SourceFile>, few: usize) {
    let many = looks(sources(2 * few));
    let mut faster = looks(sources(few));
    faster.retain(|code, looks| many[code] * 10 > *looks * 25 + 10_000);
    let faster: Vec<_> = faster.iter().map(|(code, few)| (code, few, many[code])).collect();
    assert!(faster.is_empty(), "{faster:?}");
}

/// A folder for each cluster, with Gateways and routes of one name.
#[test]
fn routes_of_one_name_cost_what_they_are() {
    let cluster = |number: usize| {
        let mut text = String::from(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
             metadata: {name: edge, namespace: edge}\nspec: {gatewayClassName: eg, \
             listeners: []}\n",
        );
        for _ in 0..20 {
            text += "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                metadata: {name: web, namespace: edge}\n\
                spec: {parentRefs: [{name: edge}], rules: [{backendRefs: [{name: web}]}]}\n";
        }
        SourceFile::new(format!("{number}/routes.yaml"), text.into_bytes())
    };
    grows_linearly(|count| (0..count).map(cluster).collect(), 10);
}

#[test]
fn copies_of_rendered_folders_cost_what_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../envoyfilter-manifests");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    grows_linearly(
        |count| {
            let copy = |_| gather(&folders, &mut std::io::empty()).unwrap();
            (0..count).flat_map(copy).collect()
        },
        14,
    );
}
