//! No output shows a credential of a file, however the file is broken at that place.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use kit::Outcome;
use kit::command::run;
use kit::fake_server::{Answer, FakeServer};

use crate::cli::support::PROGRAM;

const SECRET: &str = "Zq81+xwvK-hunter2-9fRt";
/// A piece of this many characters counts as shown.
const PIECE: usize = 8;

/// What stands at the place of a credential: as it should be, quoted or not, of a wrong type, as a
/// key, with a tab, with an open quote or bracket, before a wrong indent, as a tag, an alias, an
/// anchor, and twice. `S` is the secret.
const VALUES: [&str; 14] = [
    "\"S\"",
    "S",
    "\"S",
    "'S",
    "[\"S\"]",
    "[S",
    "{\"S\": \"S\"}",
    "{S, S}",
    "\tS",
    "S\n   wrong: 1",
    "S: S",
    "!S S",
    "*S",
    "&S [S]",
];

/// All broken forms of a text with `@` at the place of the credential.
fn forms(text: &str) -> Vec<String> {
    let intact = text.replace('@', &format!("\"{SECRET}\""));
    let (before, _) = text.split_once('@').unwrap_or((text, ""));
    let end = before.len() + "\"".len() + SECRET.len();
    let twice = text.lines().flat_map(|line| {
        let times = if line.contains('@') { 2 } else { 1 };
        std::iter::repeat_n(format!("{line}\n"), times)
    });
    let twice: String = twice.collect();
    let mut forms = vec![
        intact[..end].to_owned(),
        format!("{}\n", &intact[..end]),
        twice.replace('@', &format!("\"{SECRET}\"")),
        twice.replace('@', SECRET),
    ];
    forms.extend(VALUES.iter().map(|value| text.replace('@', &value.replace('S', SECRET))));
    forms
}

const CLUSTERS: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
    contexts:\n- name: c\n  context: {cluster: c, user: u}\n\
    clusters:\n- name: c\n  cluster:\n    server: http://127.0.0.1:1\n";
const USERS: &str = "users:\n- name: u\n  user:\n";
const REPLY: &str = "apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\n";

/// Kubeconfigs: the fields before the users, and the user.
const KUBECONFIGS: [(&str, &str); 8] = [
    ("", "    token: @\n    username: u\n"),
    ("", "    username: u\n    password: @\n"),
    ("", "    tokenFile: @\n"),
    ("", "    client-certificate-data: @\n    client-key-data: dTpw\n"),
    ("", "    client-key-data: @\n    client-certificate-data: dTpw\n"),
    ("", "    client-key: @\n    client-certificate: x\n"),
    ("    certificate-authority-data: @\n", "    token: t\n"),
    ("", "    exec: {apiVersion: v1, command: 'false', args: [--client-secret, @]}\n"),
];

/// The commands for each kind of file, named by its number; and the files.
fn manifests() -> Vec<(&'static [&'static str], String)> {
    let check: &[&str] = &["config", "check"];
    let render: &[&str] = &["render", "envoyfilter", "--policy"];
    let lint: &[&str] = &["lint"];
    let policy = "module: /x.wasm\nnamespace: shop\ngate:\n";
    let of_envoy_gateway = "module: oci://h/r:t\nnamespace: shop\ndelivery: image_volume\n\
        program_image: a\nplacement: {envoy_gateway: {gateway: g}}\ngate:\n";
    let mut all: Vec<(&[&str], String)> = vec![
        (check, "{\"role\": \"gate\", \"gate\": {\n\"secret\": @,\n\"port\": 1\n}}\n".into()),
        (render, format!("{policy}  secret: @\n  port: 16091\n")),
        (render, format!("{policy}  secret:\n    environment: @\n")),
        (render, format!("{policy}  secret:\n    sds: @\n")),
        (render, format!("{policy}  secret: {{environment: X, @}}\n")),
        (render, format!("{of_envoy_gateway}  secret:\n    environment: @\n")),
    ];
    for field in ["data", "stringData"] {
        let secret = format!(
            "apiVersion: v1\n{field}:\n  a.json: @\n  b: dTpw\nkind: Secret\nmetadata:\n  name: x\n"
        );
        all.push((lint, secret.replace("kind: Secret", "kind: Secret\nkind: Secret")));
        all.push((lint, secret));
    }
    all
}

/// Runs the program, and fails if it shows a piece of the secret.
fn shows_nothing(text: &str, command: &mut Command) -> Outcome {
    let said = run(command)?;
    let shown = format!("{}{}", said.stdout, said.stderr);
    let mut pieces = (0..=SECRET.len() - PIECE).map(|from| &SECRET[from..from + PIECE]);
    assert!(!pieces.any(|piece| shown.contains(piece)), "{command:?}\n{text}\n-> {shown}");
    Ok(())
}

/// Writes each form of the text into the file, and runs the program.
fn check(text: &str, file: &Path, program: impl Fn() -> Command) -> Outcome {
    for form in forms(text) {
        fs::write(file, &form)?;
        shows_nothing(&form, &mut program())?;
    }
    Ok(())
}

#[test]
fn no_output_shows_a_credential_of_a_file() -> Outcome {
    let folder = tempfile::tempdir()?;
    let home = folder.path();
    let file = home.join("config.json");
    let reply = home.join("reply");
    let program = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(home).env("HOME", home).env("DOCKER_CONFIG", home);
        command.env("PATH", format!("{}:/usr/bin:/bin", home.display()));
        command
    };
    let name = file.to_str().expect("a name");
    for (arguments, text) in manifests() {
        check(&text, &file, || program(&[arguments, &[name]].concat()))?;
    }
    let status = || program(&["status", "-n", "shop", "--kubeconfig", name]);
    for (cluster, user) in KUBECONFIGS {
        check(&format!("{CLUSTERS}{cluster}{USERS}{user}"), &file, status)?;
    }
    let exec =
        format!("    exec: {{apiVersion: v1, command: cat, args: ['{}']}}\n", reply.display());
    fs::write(&file, format!("{CLUSTERS}{USERS}{exec}"))?;
    for field in ["token", "expirationTimestamp", "clientKeyData"] {
        check(&format!("{REPLY}status:\n  {field}: @\n  x: y\n"), &reply, status)?;
    }
    registry_credentials(&file, &reply, program)
}

/// The files and programs that are asked for the credentials of a registry that wants some.
fn registry_credentials(
    file: &Path,
    reply: &Path,
    program: impl Fn(&[&str]) -> Command,
) -> Outcome {
    let wants = "Basic realm=\"x\"";
    let server =
        FakeServer::start(move |_, _| Ok(Answer::new(401).with("www-authenticate", wants)))?;
    let host = server.url("").replace("http://", "");
    let host = host.trim_end_matches('/');
    let inspect = || program(&["inspect", "--retries", "0", &format!("{host}/a:1")]);
    for entry in ["\"auth\": @", "\"username\": \"u\",\n\"password\": @", "\"identitytoken\": @"] {
        let text = format!("{{\"auths\": {{\n\"{host}\": {{\n{entry},\n\"x\": \"y\"\n}}}}}}\n");
        check(&text, file, inspect)?;
    }
    fs::write(file, format!("{{\"credHelpers\": {{\"{host}\": \"x\"}}}}"))?;
    let helper = file.with_file_name("docker-credential-x");
    for code in [0, 1] {
        fs::write(&helper, format!("#!/bin/sh\ncat '{}'; exit {code}\n", reply.display()))?;
        fs::set_permissions(&helper, Permissions::from_mode(0o700))?;
        check("{\"Username\": \"u\",\n\"Secret\": @\n}\n", reply, inspect)?;
        check("Secret: @\n", reply, inspect)?;
    }
    assert!(server.asked().len() > VALUES.len(), "the registry was not asked");
    Ok(())
}
