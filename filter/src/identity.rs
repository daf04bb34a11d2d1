//! Which laststream a module is: a few words in a custom section of it, for whoever has the file
//! alone.

/// The custom section with [`TEXT`] in it.
pub const SECTION: &str = "laststream";

/// The version of the configuration: it goes up when a configuration that used to be taken is
/// refused, or means something else.
pub const CONFIGURATION: u32 = 1;

/// What stands in the section: words with values, of which there may be more one day.
pub const TEXT: &str = concat!("version=", env!("CARGO_PKG_VERSION"), " configuration=", "1");

/// What a module says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The version of laststream.
    pub version: String,
    /// The version of its configuration, see [`CONFIGURATION`].
    pub configuration: u32,
}

impl Identity {
    /// Reads the section's contents; nothing if they are not what this project writes.
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
    fn says_what_the_constants_say() {
        let expected = Identity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: CONFIGURATION,
        };
        assert_eq!(Identity::read(TEXT.as_bytes()), Some(expected));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn words_of_later_versions_do_no_harm() {
        let expected = Identity { version: "2.0.0".to_owned(), configuration: 7 };
        assert_eq!(
            Identity::read(b"colour=green version=2.0.0 configuration=7 more"),
            Some(expected)
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn anything_else_is_no_identity() {
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
