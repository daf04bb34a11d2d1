//! Envoy's official releases: one binary for each machine, and a list of checksums beside them.
//!
//! The list is signed; the signature is not checked here, for it would take an OpenPGP implementation to do so. What is relied on is
//! TLS to the server that both come from; the checksums then guard against damage on the way, not against a forged release.

use super::download::Client;
use super::{Fetched, Problem, Wanted};
use crate::progress::Progress;
use std::path::Path;

/// The file with the checksums, of all machines.
const CHECKSUMS: &str = "checksums.txt.asc";

/// Fetches the binary into a folder.
pub(crate) fn fetch(wanted: &Wanted, folder: &Path, progress: &dyn Progress) -> Result<Fetched, Problem> {
    let places = &wanted.places;
    let Some(file) = places.platform.release_file(wanted.version) else {
        return Err(Problem::NoBuild(places.platform.clone()));
    };
    let url = |name: &str| format!("{}/v{}/{name}", places.mirror, wanted.version);
    let http = |url: &str| {
        let url = shown(url);
        move |error| Problem::Http { url, error }
    };
    let client = Client::new(places);
    let (list_url, file_url) = (url(CHECKSUMS), url(&file));
    let list = client.text(&list_url).map_err(http(&list_url))?;
    let Some(published) = checksum(&list, &file) else { return Err(Problem::NoChecksum { url: shown(&list_url), file }) };
    let binary = folder.join("envoy");
    let found = client.file(&file_url, &binary, progress).map_err(http(&file_url))?;
    if found != published {
        return Err(Problem::Checksum { file: shown(&file_url), found, published });
    }
    Ok(Fetched { binary, sha256: found, file: shown(&file_url) })
}

/// An address without the user and password that a mirror may have in it.
fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/{path}")
}

/// Finds a file in a clear-signed list with lines `<SHA-256>  <file>`. Some releases name the file with the folder it was built in. A
/// file that is listed twice with different checksums is as good as not listed.
fn checksum(list: &str, file: &str) -> Option<String> {
    let signed = list.split("-----BEGIN PGP SIGNATURE-----").next()?;
    let mut found = signed.lines().filter_map(|line| {
        let (sum, name) = line.trim().split_once([' ', '\t'])?;
        let name = name.trim_start().trim_start_matches('*');
        let right = name.rsplit('/').next() == Some(file) && sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
        right.then(|| sum.to_ascii_lowercase())
    });
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "envoy-1.40.0-linux-x86_64";

    fn listed(lines: &str) -> Option<String> {
        let text = format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{lines}\n-----BEGIN PGP SIGNATURE-----\n\niQ==\n");
        checksum(&text, FILE)
    }

    #[test]
    fn finds_the_file_among_the_others() {
        let (right, other) = ("a".repeat(64), "b".repeat(64));
        let lines = format!("{other}  envoy-1.40.0-linux-aarch_64\n{right}  {FILE}\n{other}  envoy-contrib-1.40.0-linux-x86_64");
        assert_eq!(listed(&lines), Some(right.clone()));
        assert_eq!(listed(&format!("{}  /tmp/build/bin/{FILE}", right.to_uppercase())), Some(right.clone()));
        assert_eq!(listed(&format!("{right} *{FILE}\n{right}  {FILE}")), Some(right));
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("https://me:secret@mirror.test:8080/a/b@c"), "https://mirror.test:8080/a/b@c");
        assert_eq!(shown("https://mirror.test/a"), "https://mirror.test/a");
    }

    #[test]
    fn takes_nothing_doubtful() {
        let (one, two) = ("a".repeat(64), "b".repeat(64));
        for lines in [
            String::new(),
            format!("{one}  {FILE}\n{two}  {FILE}"),
            format!("{}  {FILE}", "a".repeat(63)),
            format!("{}  {FILE}", "g".repeat(64)),
            format!("{one}  {FILE}.sig"),
            format!("{one}  contrib-{FILE}"),
            "<html>log in first</html>".to_owned(),
        ] {
            assert_eq!(listed(&lines), None, "{lines}");
        }
        assert_eq!(checksum(&format!("-----BEGIN PGP SIGNATURE-----\n{one}  {FILE}"), FILE), None, "not in the signed part");
    }
}
