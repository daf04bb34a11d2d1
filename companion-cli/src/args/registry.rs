//! The options of every command that talks to a registry.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use laststream_base::causes::Context as _;
use laststream_base::env_vars::{
    self, LASTSTREAM_REGISTRY_PASSWORD, LASTSTREAM_REGISTRY_USERNAME, Lookup,
};
use laststream_oci::registry::credentials::{FoundLogin, Login, Secret, Sources};
use laststream_oci::registry::{Options, Tls};

use crate::commands::{Failure, misused};

/// The longest password in bytes. A longer text is not a password, and is not read to its end.
const LONGEST_PASSWORD: u64 = 64 << 10;
/// The length of the longest end of a line.
const LINE_END: u64 = 2;

#[derive(Debug, Args)]
#[command(next_help_heading = "Registry")]
pub(crate) struct RegistryArgs {
    /// The user name. The default is LASTSTREAM_REGISTRY_USERNAME, then the credentials of docker
    /// and podman.
    #[arg(short, long, value_name = "NAME")]
    username: Option<String>,
    /// Reads the password or token from standard input. The default is
    /// LASTSTREAM_REGISTRY_PASSWORD.
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// Uses HTTP without TLS. This is the default for localhost, unless one of the next four
    /// options is given.
    #[arg(long, conflicts_with_all = ["insecure", "ca_file", "cert", "key"])]
    plain_http: bool,
    /// Accepts any certificate. For tests only.
    #[arg(long, conflicts_with = "ca_file")]
    insecure: bool,
    /// A PEM file with the certificate authorities to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// A PEM file with the client certificate.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// A PEM file with the key of the client certificate.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The number of retries after a temporary error.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(..=20)
    )]
    retries: u32,
    /// How long the registry may be silent, in seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    timeout: u64,
}

impl RegistryArgs {
    pub(crate) fn options(&self) -> Options {
        let silence = Duration::from_secs(self.timeout);
        let client = self.cert.clone().zip(self.key.clone());
        let tls = Tls { ca_file: self.ca_file.clone(), client, insecure: self.insecure };
        let mut options = Options { plain_http: self.plain_http, tls, ..Options::default() };
        let limits = &mut options.limits;
        limits.silence = silence;
        limits.connect = limits.connect.min(silence);
        limits.request = limits.request.max(silence);
        options.retry.further = self.retries;
        options
    }

    /// Whether the arguments give a user name or a password.
    pub(crate) fn names_login(&self) -> bool {
        self.username.is_some() || self.password_stdin
    }

    /// Reads the password if `--password-stdin` is given.
    pub(crate) fn sources(&self) -> Result<Sources, Failure> {
        let password = self.password_stdin.then(|| password(io::stdin().lock())).transpose();
        let login = password
            .and_then(|password| given(self.username.clone(), password, &env_vars::of_process))
            .map_err(misused)?;
        Ok(Sources::from_vars(login, &env_vars::of_process))
    }
}

/// The login of the options and variables. An option takes precedence over its variable.
fn given(
    username: Option<String>,
    password: Option<Secret>,
    lookup: Lookup<'_>,
) -> Result<Option<FoundLogin>, String> {
    const NAME: &str = "a user name (`--username` or LASTSTREAM_REGISTRY_USERNAME)";
    const PASSWORD: &str = "a password (`--password-stdin` or LASTSTREAM_REGISTRY_PASSWORD)";
    let half =
        |given, missing| format!("{given} is there, but {missing} is not: give both or neither");
    // A Kubernetes Secret made with `echo` ends with a line break, which no login has.
    let text = |name: &str| {
        let text = lookup(name)?.into_string().ok()?;
        Some(text.trim_end_matches(['\r', '\n']).to_owned()).filter(|text| !text.is_empty())
    };
    let username = username.or_else(|| text(LASTSTREAM_REGISTRY_USERNAME));
    let source = if password.is_some() { "the options" } else { LASTSTREAM_REGISTRY_PASSWORD };
    let password = password.or_else(|| text(LASTSTREAM_REGISTRY_PASSWORD).map(Secret::new));
    match (username, password) {
        (Some(username), Some(password)) => Ok(Some(FoundLogin {
            login: Login::Password { username, password },
            source: source.to_owned(),
        })),
        (Some(_), None) => Err(half(NAME, PASSWORD)),
        (None, Some(_)) => Err(half(PASSWORD, NAME)),
        (None, None) => Ok(None),
    }
}

/// Reads everything but the end of the line.
fn password(input: impl io::Read) -> Result<Secret, String> {
    let mut bytes = Vec::new();
    let mut input = input.take(LONGEST_PASSWORD + LINE_END + 1);
    input.read_to_end(&mut bytes).context("cannot read the password from standard input")?;
    let no_password = |why: &str| format!("standard input holds no password: it {why}");
    let not_a_line = || no_password("must be one line of text, not empty");
    let text = String::from_utf8(bytes).map_err(|_| not_a_line())?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.len() as u64 > LONGEST_PASSWORD {
        Err(no_password(&format!("is longer than {} kB", LONGEST_PASSWORD >> 10)))
    } else if text.is_empty() || text.contains(['\n', '\r', '\0']) {
        Err(not_a_line())
    } else {
        Ok(Secret::new(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_takes_precedence_over_its_variable() {
        let login = |username: Option<&str>, password: Option<&str>, variables: &[&str]| {
            let lookup = |name: &str| variables.contains(&name).then(|| "of a variable\n".into());
            given(username.map(str::to_owned), password.map(Secret::new), &lookup)
        };
        let (name, word) = (LASTSTREAM_REGISTRY_USERNAME, LASTSTREAM_REGISTRY_PASSWORD);
        let found = login(Some("u"), None, &[name, word]).unwrap().unwrap();
        let (username, password) = ("u".to_owned(), Secret::new("of a variable"));
        assert_eq!(found.login, Login::Password { username, password });
        assert_eq!(found.source, word);
        assert_eq!(login(Some("u"), Some("p"), &[word]).unwrap().unwrap().source, "the options");
        assert!(login(None, None, &[]).unwrap().is_none());
    }

    #[test]
    fn a_password_is_one_line() {
        let read =
            |text: &str| password(text.as_bytes()).ok().map(|secret| secret.reveal().to_owned());
        assert_eq!(read("p w\n").as_deref(), Some("p w"));
        assert_eq!(read("p\r\n").as_deref(), Some("p"));
        assert_eq!(read(" p ").as_deref(), Some(" p "));
        assert_eq!(read("\n"), None);
        assert_eq!(read("a\nb\n"), None);
        let longest = "p".repeat(1 << 16);
        assert_eq!(read(&longest).as_ref(), Some(&longest));
        assert_eq!(read(&format!("{longest}\r\n")).as_ref(), Some(&longest));
        assert_eq!(read(&format!("{longest}p")), None);
    }
}
