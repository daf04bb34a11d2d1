//! The verdict on objects of other projects, beside the API server's: the tests for CEL of Envoy
//! Gateway and of the Gateway API name objects that it takes and refuses. `recall/record` writes
//! them anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use laststream_lint::{Assume, SourceFile, lint};

use crate::output::golden;
use crate::support::folder;

#[test]
fn the_recall_is_made_from_the_tests_of_other_projects() {
    let mut figures = String::new();
    for (name, gateway_api) in [("envoy-gateway-1.9.0", None), ("gateway-api-1.6.1", Some((1, 6)))]
    {
        let text = std::fs::read_to_string(folder(&format!("recall/{name}.tsv"))).unwrap();
        let mut verdicts = BTreeMap::<&str, (usize, Vec<&str>)>::new();
        for row in text.lines() {
            let [verdict, test, object] = row.split('\t').collect::<Vec<_>>()[..] else { panic!() };
            let source = SourceFile::new("object.json", object.into());
            let assume = Assume { gateway_api, ..Assume::default() };
            let codes = lint(vec![source], assume).unwrap();
            let mut codes = codes.iter().map(|finding| finding.rule.code);
            let is_refused = codes.any(|code| ("LS006"..="LS009").contains(&code));
            let (count, wrong) = verdicts.entry(verdict).or_default();
            *count += 1;
            wrong.extend(Some(test).filter(|_| is_refused != (verdict == "invalid")));
        }
        for (verdict, (count, wrong)) in verdicts {
            let right = count - wrong.len();
            let _ = writeln!(figures, "{name}: {right} of {count} {verdict} objects {wrong:?}");
        }
    }
    golden("recall.txt", &figures);
}
