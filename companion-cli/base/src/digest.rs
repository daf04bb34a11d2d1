//! SHA-256 digests, by which registries name content. No other module hashes.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use ring::digest::{Context, SHA256};

const ALGORITHM: &str = "sha256:";

/// `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Only the digits, as the field `sha256` of an `EnvoyFilter` needs them.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix(ALGORITHM).unwrap_or(&self.0)
    }

    /// The digest with the algorithm in front.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether these are the digits of a digest, in lower case.
pub fn is_hex(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Computes the digest of bytes that arrive in parts.
#[derive(Clone)]
pub struct Hasher(Context);

impl Default for Hasher {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Digest {
        let hex: String =
            self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Digest(format!("{ALGORITHM}{hex}"))
    }
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no digest: write `sha256:` and 64 hexadecimal digits in lower case")]
pub struct NotADigest(String);

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix(ALGORITHM) {
            Some(hex) if is_hex(hex) => Ok(Self(text.to_owned())),
            _ => Err(NotADigest(text.chars().take(100).collect())),
        }
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lower_case_digests_are_digests() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        assert_eq!(empty.parse(), Ok(Digest::of(b"")));
        assert_eq!(Digest::of(b"").hex(), &empty[7..]);
        for wrong in [
            "",
            "sha256:",
            &empty[7..],
            &empty[..70],
            &empty.to_uppercase(),
            &empty.replace("sha256", "sha512"),
        ] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
