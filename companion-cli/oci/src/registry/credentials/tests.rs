//! Files as docker and podman write them, and helpers that work and that fail.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use super::*;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn docker(self, text: &str) -> Self {
        fs::write(self.0.path().join("config.json"), text).unwrap();
        self
    }

    fn podman(self, text: &str) -> Self {
        fs::write(self.0.path().join("auth.json"), text).unwrap();
        self
    }

    fn helper(self, name: &str, script: &str) -> Self {
        let path = self.0.path().join(format!("docker-credential-{name}"));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn sources(&self) -> Sources {
        let path = |name: &str| Some(self.0.path().join(name));
        let search_path = vec![self.0.path().to_owned(), "/usr/bin".into(), "/bin".into()];
        Sources {
            docker: path("config.json"),
            podman: path("auth.json").into_iter().collect(),
            search_path,
            ..Sources::none()
        }
    }

    fn find(&self, registry: &str) -> Option<Login> {
        self.find_in(registry, "team/laststream")
    }

    fn find_in(&self, registry: &str, repository: &str) -> Option<Login> {
        self.sources().find(registry, repository).unwrap().map(|found| found.login)
    }

    fn error(&self, registry: &str) -> String {
        self.sources().find(registry, "a").unwrap_err().to_string()
    }
}

fn password(username: &str, password: &str) -> Option<Login> {
    Some(Login::Password { username: username.to_owned(), password: Secret::new(password) })
}

fn token(username: &str, token: &str) -> Option<Login> {
    Some(Login::IdentityToken { username: username.to_owned(), token: Secret::new(token) })
}

/// `u:p`
const AUTH: &str = "dTpw";

#[test]
fn docker_files_are_read_as_docker_reads_them() {
    for (file, registry, login) in [
        (r#"{"auths": {"r.test": {"auth": "dTpw"}}}"#, "r.test", password("u", "p")),
        (r#"{"auths": {"https://r.test/v1/": {"auth": "dTpw"}}}"#, "r.test", password("u", "p")),
        (r#"{"auths": {"https://r.test": {"auth": "dTpw"}}}"#, "r.test", password("u", "p")),
        (r#"{"auths": {"r.test:5000": {"auth": "dTpw"}}}"#, "r.test:5000", password("u", "p")),
        (r#"{"auths": {"r.test:5000": {"auth": "dTpw"}}}"#, "r.test", None),
        (r#"{"auths": {"r.test": {"auth": "dTpw"}}}"#, "r.test.evil", None),
        (
            r#"{"auths": {"r.test": {"username": "u", "password": "p"}}}"#,
            "r.test",
            password("u", "p"),
        ),
        (r#"{"auths": {"r.test": {"auth": "dTpwOnE="}}}"#, "r.test", password("u", "p:q")),
        (r#"{"auths": {"r.test": {"auth": "dTpwOnE"}}}"#, "r.test", password("u", "p:q")),
        (
            r#"{"auths": {"r.test": {"auth": "dToA", "identitytoken": "t"}}}"#,
            "r.test",
            token("u", "t"),
        ),
        (r#"{"auths": {"r.test": {}}}"#, "r.test", None),
        (r#"{"auths": {"r.test": null}}"#, "r.test", None),
        (
            r#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"}}}"#,
            "docker.io",
            password("u", "p"),
        ),
        (
            r#"{"auths": {"registry-1.docker.io": {"auth": "dTpw"}}}"#,
            "docker.io",
            password("u", "p"),
        ),
        (r#"{"auths": {"docker.io": {"auth": "dTpw"}}}"#, "docker.io", password("u", "p")),
        (r#"{"HttpHeaders": {"x": "y"}, "psFormat": "t"}"#, "r.test", None),
        ("", "r.test", None),
        ("{}", "r.test", None),
    ] {
        assert_eq!(Home::new().docker(file).find(registry), login, "{file}");
    }
}

#[test]
fn podman_files_have_entries_for_parts_of_a_registry() {
    let file = r#"{"auths": {"r.test": {"auth": "dTpw"}, "r.test/team": {"auth": "dDp0"},
        "r.test/team/laststream": {"auth": "bDps"}}}"#;
    let home = Home::new().podman(file);
    assert_eq!(home.find_in("r.test", "other"), password("u", "p"));
    assert_eq!(home.find_in("r.test", "team/x"), password("t", "t"));
    assert_eq!(home.find_in("r.test", "team/laststream"), password("l", "l"));
    assert_eq!(home.find_in("r.test", "teams/x"), password("u", "p"));
    assert_eq!(home.find_in("other.test", "team/x"), None);
}

#[test]
fn sources_are_tried_in_the_order_of_docker() {
    let says = |name: &str| {
        format!(
            r#"cat >/dev/null; echo '{{"ServerURL": "x", "Username": "{name}", "Secret": "s"}}'"#
        )
    };
    let auths = format!(r#""auths": {{"r.test": {{"auth": "{AUTH}"}}}}"#);
    let home = || {
        Home::new()
            .helper("own", &says("helper"))
            .helper("store", &says("store"))
            .podman(r#"{"auths": {"r.test": {"auth": "cG9kOnM="}}}"#)
    };
    let all = format!(r#"{{"credHelpers": {{"r.test": "own"}}, {auths}, "credsStore": "store"}}"#);
    assert_eq!(home().docker(&all).find("r.test"), password("helper", "s"));
    let without_helper = format!(r#"{{{auths}, "credsStore": "store"}}"#);
    assert_eq!(home().docker(&without_helper).find("r.test"), password("u", "p"));
    assert_eq!(
        home().docker(r#"{"auths": {"r.test": {}}, "credsStore": "store"}"#).find("r.test"),
        password("store", "s")
    );
    assert_eq!(home().docker("{}").find("r.test"), password("pod", "s"));
    assert_eq!(home().find("r.test"), password("pod", "s"));
    let mut sources = home().docker(&all).sources();
    let login = password("me", "mine").unwrap();
    sources.given = Some(FoundLogin { login, source: "the caller".to_owned() });
    let found = sources.find("r.test", "a").unwrap().map(|found| found.login);
    assert_eq!(found, password("me", "mine"));
}

#[test]
fn a_helper_is_asked_with_the_registry_on_standard_input() {
    let echo = r#"read -r server; echo "{\"Username\": \"$1 $server\", \"Secret\": \"s\"}""#;
    let home = Home::new()
        .helper("x", echo)
        .docker(r#"{"credHelpers": {"r.test": "x", "docker.io": "x"}}"#);
    assert_eq!(home.find("r.test"), password("get r.test", "s"));
    assert_eq!(home.find("docker.io"), password("get https://index.docker.io/v1/", "s"));
    let home = Home::new()
        .helper("x", r#"echo '{"Username": "<token>", "Secret": "t"}'"#)
        .docker(r#"{"credsStore": "x"}"#);
    assert_eq!(home.find("r.test"), token("", "t"));
    let home = Home::new()
        .helper("x", "echo credentials not found in native keychain; exit 1")
        .docker(r#"{"credsStore": "x"}"#);
    assert_eq!(home.find("r.test"), None);
}

#[test]
fn errors_name_the_problem_and_no_secret() {
    let helper = |script: &str| {
        let home = Home::new().helper("x", script);
        home.docker(r#"{"credHelpers": {"r.test": "x"}}"#).error("r.test")
    };
    let docker = |config: &str| Home::new().docker(config).error("r.test");
    for (error, says) in [
        (
            helper("echo hunter2; exit 3"),
            "failed (exit status: 3); see why: `echo r.test | docker-credential-x get`",
        ),
        (
            helper(r#"echo '{"Username": "u", "Secret": "hunter2"}'; exit 3"#),
            "failed (exit status: 3)",
        ),
        (helper(r#"echo '{"Username": "u", "Secret": hunter2}'"#), "did not answer with"),
        (helper("echo hunter2"), "did not answer with"),
        (docker(r#"{"credHelpers": {"r.test": "gone"}}"#), "`docker-credential-gone`"),
        (docker(r#"{"credHelpers": {"r.test": "../../bin/sh"}}"#), "is no name of a program"),
        (
            docker(r#"{"auths": {"r.test": {"auth": "hunter2!"}}}"#),
            "`auth` of `r.test` is not base64",
        ),
        (docker(r#"{"auths": {"r.test": {"auth": "aHVudGVyMg=="}}}"#), "has no colon"),
        (docker(r#"{"auths": {"r.test": {"auth": 5, "password": "hunter2"}}}"#), "line 1, column"),
        (
            docker(r#"{"auths": "hunter2"}"#),
            "line 1, column 19: this must be a section with fields",
        ),
    ] {
        assert!(error.contains(says), "{error}");
        assert!(error.contains("config.json"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_helper_that_hangs_is_ended() {
    let home = Home::new()
        .helper("x", "sleep 60 & sleep 60")
        .docker(r#"{"credHelpers": {"r.test": "x"}}"#);
    let began = Instant::now();
    let sources = Sources { helper_time: Duration::from_millis(300), ..home.sources() };
    let error = sources.find("r.test", "a").unwrap_err().to_string();
    assert!(error.ends_with("did not answer within 0.3 s, and was ended"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn variables_name_the_files() {
    let sources = |variables: &[(&str, &str)]| {
        let lookup = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        Sources::from_vars(None, &lookup)
    };
    let home = sources(&[(HOME, "/home/u"), (XDG_RUNTIME_DIR, "/run/user/1")]);
    assert_eq!(home.docker.as_deref(), Some(Path::new("/home/u/.docker/config.json")));
    let after = |first: &str| {
        vec![PathBuf::from(first), PathBuf::from("/home/u/.config/containers/auth.json")]
    };
    assert_eq!(home.podman, after("/run/user/1/containers/auth.json"));
    let usual = without_session();
    assert_eq!(sources(&[(HOME, "/home/u")]).podman, after(usual.to_str().unwrap()));
    let config = sources(&[(HOME, "/home/u"), (XDG_CONFIG_HOME, "/c")]);
    assert_eq!(config.podman.last().unwrap(), Path::new("/c/containers/auth.json"));
    let named = sources(&[
        (HOME, "/home/u"),
        (DOCKER_CONFIG, "/d"),
        (REGISTRY_AUTH_FILE, "/p.json"),
        (XDG_RUNTIME_DIR, "/run/user/1"),
    ]);
    assert_eq!(named.docker.as_deref(), Some(Path::new("/d/config.json")));
    assert_eq!(named.podman, [Path::new("/p.json")], "podman reads no other");
}

/// Reading a pipe would block forever.
#[test]
fn a_pipe_is_not_read_for_credentials() {
    let home = Home::new();
    let made = std::process::Command::new("mkfifo")
        .arg(home.0.path().join("config.json"))
        .status()
        .unwrap();
    assert!(made.success());
    assert!(home.error("r.test").contains("not a regular file"));
    let nothing = Sources { docker: Some("/dev/null".into()), ..Sources::none() };
    assert_eq!(nothing.find("r.test", "a"), Ok(None), "as people say that there are none");
}
