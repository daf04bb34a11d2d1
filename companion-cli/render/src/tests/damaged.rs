//! Damaged policies cause no panic, and the files rendered from them are YAML.

use proptest::prelude::*;

use laststream_policy::Wanted;

/// Cuts, doubles and replaces pieces of a real policy.
fn damaged() -> impl Strategy<Value = String> {
    const PIECES: &str = concat!(
        "·:·\n·  ·[·]·{·}·&a·*a·<<: *a·!!binary·|·>·'·\"·#·-·---\n·\t·\0·é·1e999·-1·~·60s·",
        "null·gate:·drain:·placement:·sidecar: {}·18446744073709551615·on·0x10·.nan·? ·",
        "%YAML 1.1\n·[[[[[[[[[[[[·{a: {a: {a: ",
    );
    const WHOLE: &str = include_str!("../../../policy/src/tests/everything.yaml");
    let pieces: Vec<&str> = PIECES.split('·').collect();
    let cut = (0..WHOLE.len(), 0_usize..30, proptest::sample::select(pieces));
    proptest::collection::vec(cut, 1..5).prop_map(|cuts| {
        cuts.into_iter().fold(WHOLE.to_owned(), |text, (at, length, piece)| {
            let whole = |at: usize| {
                (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
            };
            let start = whole(at);
            format!("{}{piece}{}", &text[..start], &text[whole(start + length)..])
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// A policy that can be read is rendered or rejected with an error, and rendered files are
    /// YAML.
    #[test]
    fn damaged_policies_cause_no_panic(text in damaged()) {
        if let Ok(policy) = super::read(&text) {
            let resolve = |_: &str, _: Wanted| Ok(format!("sha256:{}", "a".repeat(64)));
            for rendered in super::every_kind(&policy, &resolve).into_iter().flatten() {
                for file in rendered.files {
                    let back: Result<Vec<serde_json::Value>, _> =
                        serde_saphyr::from_multiple(&file.text);
                    prop_assert!(back.is_ok(), "{:?}\n{}", back.err(), file.text);
                }
            }
        }
    }
}
