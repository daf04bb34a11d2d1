//! The first path of a user without Rust, word for word: the program from its archive, as
//! docs/release.md says, README.md's installation up to `kubectl`, and a proxy with that policy.
//! With the files of a real release, all of it runs in a Debian that has no other program. The case
//! M1 of the mesh goes on with `kubectl`.

use std::fs;
use std::process::Command;
use std::time::Instant;

use laststream_local::envoy;

use super::{FILES, Release, names, run};
use crate::docs::{ADDRESS, commands};
use crate::lab::{Envoys, envoyless_cases};
use kit::fake_server::{Answer, FakeServer};
use kit::prelude::*;
use kit::process::guarded;
use kit::programs::program;
use kit::registry::real::{Registry, Settings};
use kit::user::User;
use kit::wire::free_port;

envoyless_cases! {
    the_documents_lead_from_nothing_to_an_exact_count,
}

fn the_documents_lead_from_nothing_to_an_exact_count() -> Outcome {
    let (user, registry) = (User::new()?, Registry::start(&Settings::default())?);
    let release = Release::get()?;
    let downloads = downloads(&release)?;
    let get = commands("docs/release.md", "tar -xzf")?.replace(ADDRESS, &downloads.url(""));
    let install =
        commands("README.md", "laststream push")?.replace("registry.example.com", &registry.name());
    let (install, _) = install.split_once("kubectl").context("README.md applies nothing")?;
    fs::copy(Envoys::default().get(envoy::NEWEST)?, user.path("bin/envoy"))?;
    let (port, gate) = (free_port()?, free_port()?);
    let proxy = format!(
        "export LASTSTREAM_ENVOY=~/bin/envoy LASTSTREAM_GATE=http://127.0.0.1:{gate}
         laststream run --listen {port} --gate {gate} --policy policy.yaml &
         until curl --fail --silent http://127.0.0.1:{port}/hello; do sleep 0.1; done
         until [[ $(laststream status) == *'count     exact'* ]]; do sleep 0.1; done
         kill $!
         wait $!"
    );
    let mut shell = shell(&user)?;
    let began = Instant::now();
    run(shell.args(["-euxc", &format!("{get}{install}\n{proxy}")]))?;
    eprintln!("from nothing to `exact`: {:.1} s", began.elapsed().as_secs_f64());
    let rendered = names(&user.path("gateway"))?;
    let expected = ["envoyfilter.yaml", "kustomization.yaml", "proxy-config.yaml"];
    ensure_eq!(rendered, expected, "files of README.md's policy");
    Ok(())
}

/// A server with the files of the release, at their addresses.
fn downloads(release: &Release) -> Outcome<FakeServer> {
    let place = release.place()?;
    FakeServer::start(move |asked, _| {
        let file = asked.path().strip_prefix("/releases/download/").unwrap_or_default();
        let answer = fs::read(place.path().join(file)).map(|bytes| Answer::new(200).body(bytes));
        Ok(answer.unwrap_or(Answer::new(404)))
    })
}

/// A shell in the user's home, in which no cargo is on the PATH.
fn shell(user: &User) -> Outcome<Command> {
    /// Enters the root folder `$0` with the home `$1`.
    const ENTER: &str = r#"for shared in /dev /proc /tmp; do mount --rbind $shared $0$shared; done
        mount --rbind $1 $0/home
        shift
        clean="env -i HOME=/home PATH=/home/.local/bin:/usr/bin"
        exec chroot $0 $clean bash -c 'cd; exec "$@"' - "$@"
        "#;
    if std::env::var_os(FILES).is_none() {
        let (own, curl) = (user.path(".local/bin"), program("curl")?);
        let path = [&own, curl.parent().context("a folder")?, "/usr/bin".as_ref(), "/bin".as_ref()];
        let mut command = user.command("bash");
        command.env("PATH", std::env::join_paths(path)?);
        return Ok(command);
    }
    let mut command = guarded("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-euc", ENTER]);
    command.arg(program("debian-root")?).arg(user.path("")).arg("bash");
    Ok(command)
}
