//! The version of a module, in a custom section, for readers that have only the file.

/// The custom section with [`TEXT`] in it.
pub const SECTION: &str = "laststream";

/// The version of the configuration. It goes up when a configuration that was valid is refused, or
/// changes its meaning.
pub const CONFIGURATION: u32 = 1;

/// The text of the section: words with values. Later versions may add words.
pub const TEXT: &str = concat!("version=", env!("CARGO_PKG_VERSION"), " configuration=", "1");

/// The contents of the section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The version of laststream.
    pub version: String,
    /// The version of its configuration, see [`CONFIGURATION`].
    pub configuration: u32,
}

impl Identity {
    /// Parses the section; none if this project did not write it.
    pub fn read(section: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(section).ok()?;
        let word = |name: &str| {
            text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        Some(Self {
            version: word("version")?.to_owned(),
            configuration: word("configuration")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    #[wasm_bindgen_test(unsupported = test)]
    fn reads_its_own_section() {
        let expected = Identity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: CONFIGURATION,
        };
        assert_eq!(Identity::read(TEXT.as_bytes()), Some(expected));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn ignores_words_of_later_versions() {
        let expected = Identity { version: "2.0.0".to_owned(), configuration: 7 };
        assert_eq!(
            Identity::read(b"colour=green version=2.0.0 configuration=7 more"),
            Some(expected)
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn refuses_any_other_text() {
        for section in [
            &b""[..],
            b"version=1",
            b"configuration=1",
            b"version=1 configuration=x",
            b"version=\xff configuration=1",
        ] {
            assert_eq!(Identity::read(section), None, "{section:?}");
        }
    }
}
