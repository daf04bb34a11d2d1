//! The configuration: JSON text → [`wire`] structs → a checked [`Config`]. The command line uses
//! the same types, so it accepts what the module accepts.

use serde::Deserialize as _;

mod check;
mod checked;
mod error;
mod read;
#[cfg(feature = "schema")]
pub mod schema;
pub mod tree;
pub mod wire;

pub use checked::Config;
pub(crate) use error::fault;
pub use error::{Fault, Problem, Refused};

/// Reads and checks a configuration. An empty text is the empty configuration.
///
/// # Errors
/// The first problem of the shape, or all problems of the values.
pub fn parse(text: &[u8]) -> Result<Config, Refused> {
    check::check(read_wire(text)?)
}

/// Reads a configuration without checking its values.
///
/// # Errors
/// The first problem of the shape.
pub fn read_wire(text: &[u8]) -> Result<wire::Configuration, Fault> {
    // Envoy passes any message other than a string or bytes in protobuf's own encoding, which has
    // control characters.
    if text.iter().any(|byte| *byte < b' ' && !byte.is_ascii_whitespace()) {
        return Err(fault(
            "",
            "is not text: write it as JSON in a `google.protobuf.StringValue`, not as a Struct",
        ));
    }
    let text = core::str::from_utf8(text).map_err(|error| {
        fault("", &format!("is not UTF-8 from byte {} on", error.valid_up_to()))
    })?;
    if text.trim_ascii().is_empty() {
        return Ok(wire::Configuration::default());
    }
    wire::Configuration::deserialize(read::Reader(&tree::parse(text)?))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::wire::{Gate, Scope};
    use super::{parse, read_wire};

    #[wasm_bindgen_test(unsupported = test)]
    fn an_empty_text_is_the_empty_configuration() {
        for text in ["", " \n", "{}"] {
            let config = parse(text.as_bytes()).expect(text);
            assert_eq!(config.scope, Scope::Gateway);
            assert!(
                config.exclude.is_empty()
                    && config.long_lived.is_empty()
                    && config.forwarded_proto.is_none()
            );
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn null_counts_as_missing() {
        let gate = r#"{"role": "gate", "gate": {"secret": null, "evaluate_every_ms": null}}"#;
        let wire = read_wire(gate.as_bytes()).expect("null is no error");
        assert_eq!(wire.gate, Some(Gate::default()));
        let written = serde_json::to_string(&wire).expect("it can be written");
        assert_eq!(read_wire(written.as_bytes()), Ok(wire));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn errors_name_the_field_and_the_fix() {
        let blocks = include_str!("refused.txt").trim_end().split("\n\n");
        for case in blocks.filter(|block| !block.starts_with('#')) {
            let (text, problem) = case.split_once("\n-> ").expect(case);
            let (path, message) = problem.split_once(": ").expect(case);
            let refused = parse(text.as_bytes()).map(|_| ()).expect_err(text);
            assert_eq!(refused.0.len(), 1, "{text}: {refused}");
            assert_eq!(refused.0[0].path, path, "{text}: {refused}");
            assert!(refused.0[0].message.contains(message), "{text}: {refused}");
            let is_shown = path == "gate.secret" && refused.to_string().contains("letters");
            assert!(!is_shown, "the error shows the secret: {refused}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_text_that_is_not_json_is_explained() {
        for protobuf in [&b"\n\x14\n\x05scope\x12\x0b\x1a\x07inbound"[..], b"\x00"] {
            assert!(
                parse(protobuf)
                    .map(|_| ())
                    .expect_err("protobuf")
                    .to_string()
                    .contains("StringValue")
            );
        }
        assert!(
            parse(b"{\"scope\": \"\xff\"}")
                .map(|_| ())
                .expect_err("not UTF-8")
                .to_string()
                .contains("not UTF-8 from byte 11 on")
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn reports_every_wrong_value_at_once() {
        let text = r#"{
            "count": {"exclude": {"paths": [{"exact": "a"}]}},
            "forwarded_proto": {"trust": {
                "peers": ["a", "b"],
                "identities": [{"prefix": "spiffe://x/ns/ist"}]
            }}
        }"#;
        let refused = parse(text.as_bytes()).map(|_| ()).expect_err(text);
        let paths: Vec<_> = refused.0.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "count.exclude.paths[0]",
                "forwarded_proto.sources",
                "forwarded_proto.trust.peers[0]",
                "forwarded_proto.trust.peers[1]",
                "forwarded_proto.trust.identities[0]",
            ]
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn values_beside_the_refused_ones_are_accepted() {
        for text in [
            r#"{"count": {"exclude": {"paths": [{"exact": "/"}, {"prefix": "/a"}]}}}"#,
            r#"{"count": {"long_lived": {"headers": [{"name": "x-host"}]}}}"#,
            r#"{"forwarded_proto": {"presets": ["aws_alb"], "ports": {"https": [], "http": []},
                "trust": {"identities": [{"exact": "/"}, {"prefix": "spiffe://mesh/"}]}}}"#,
        ] {
            assert_eq!(parse(text.as_bytes()).map(|_| ()), Ok(()), "{text}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn warns_if_every_address_is_trusted() {
        for (peer, warns) in [
            ("0.0.0.0/0", true),
            ("::/0", true),
            ("::ffff:0.0.0.0/96", true),
            ("10.0.0.0/8", false),
            ("0.0.0.0/1\", \"128.0.0.0/1", true),
        ] {
            let text = format!(
                r#"{{"forwarded_proto": {{"presets": ["gcp"], "trust": {{"peers": ["{peer}"]}}}}}}"#
            );
            assert_eq!(
                parse(text.as_bytes()).expect(peer).warnings().len(),
                usize::from(warns),
                "{peer}"
            );
        }
    }
}
