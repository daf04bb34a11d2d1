//! Debian's `docker-registry` on a free port of the loopback interface, and `skopeo`, an
//! independent tool that must find the pushed image there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::sha256;
use crate::command::run;
use crate::process::{Process, guarded};
use crate::programs::program;
use crate::wait::wait_for_blocking;
use crate::{Context as _, Outcome, ensure, ensure_eq};

/// Credentials that no output may show.
pub const PASSWORD: &str = "pass-phrase-of-the-test";
pub const USERNAME: &str = "tester";
/// The line of an htpasswd file for these credentials.
const HTPASSWD: &str = "tester:$2b$04$kZpwtr2LgRNYG1/m0fsw1Ox7s2ZIbdb6nC8xLrQvCDF9aSsH98NGS\n";

/// The settings of a registry.
#[derive(Default)]
pub struct Settings {
    /// The port on which it listens; 0 is any free port.
    pub port: u16,
    /// The realm of the challenge with which it requires [`USERNAME`] and [`PASSWORD`].
    pub realm: Option<&'static str>,
    /// `auth` in its configuration.
    pub auth: Option<Value>,
    /// `http.tls` in its configuration.
    pub tls: Option<Value>,
    pub read_only: bool,
    /// The address on which it listens; 127.0.0.1 by default.
    pub address: Option<&'static str>,
    /// The largest size of a file in bytes, which has the effect of a full disk.
    pub file_limit: Option<u64>,
}

pub struct Registry {
    _process: Process,
    folder: TempDir,
    port: u16,
}

impl Registry {
    /// One that requires [`USERNAME`] and [`PASSWORD`].
    pub fn private() -> Outcome<Self> {
        Self::start(&Settings { realm: Some("test"), ..Settings::default() })
    }

    pub fn start(settings: &Settings) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let address = settings.address.unwrap_or("127.0.0.1");
        let mut http =
            json!({ "addr": format!("{address}:{}", settings.port), "secret": "of the test" });
        if let Some(tls) = &settings.tls {
            http["tls"] = tls.clone();
        }
        let storage = json!({
            "filesystem": { "rootdirectory": folder.path().join("data") },
            "maintenance": {
                "readonly": { "enabled": settings.read_only },
                "uploadpurging": { "enabled": false },
            },
        });
        let mut config = json!({
            "version": 0.1, "log": { "accesslog": { "disabled": false } }, "storage": storage,
            "http": http,
        });
        if let Some(auth) = &settings.auth {
            config["auth"] = auth.clone();
        }
        if let Some(realm) = settings.realm {
            let file = folder.path().join("htpasswd");
            fs::write(&file, HTPASSWD)?;
            config["auth"] = json!({ "htpasswd": { "realm": realm, "path": file } });
        }
        fs::write(folder.path().join("config.yml"), config.to_string())?; // JSON is YAML
        let log = fs::File::create(folder.path().join("log"))?;
        let mut command = match settings.file_limit {
            Some(limit) => {
                let mut command = guarded("prlimit");
                command.arg(format!("--fsize={limit}")).arg("--").arg(program("docker-registry")?);
                command
            }
            None => guarded(program("docker-registry")?),
        };
        command
            .arg("serve")
            .arg(folder.path().join("config.yml"))
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut registry = Self { _process: Process::spawn(command)?, folder, port: 0 };
        registry.port = registry.wait_for_port(address)?;
        Ok(registry)
    }

    fn wait_for_port(&self, address: &str) -> Outcome<u16> {
        wait_for_blocking("the registry to start", || {
            let log = self.log();
            let address = log.split(&format!("listening on {address}:")).nth(1);
            let port = address.and_then(|rest| rest.split([',', '"', ' ']).next()?.parse().ok());
            port.with_context(|| log.clone())
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `localhost:PORT`
    pub fn name(&self) -> String {
        format!("localhost:{}", self.port)
    }

    pub fn image(&self) -> String {
        format!("{}/laststream:1", self.name())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Every request so far, as `METHOD PATH`, without queries.
    pub fn requests(&self) -> Vec<String> {
        let log = self.log();
        let requests = log
            .lines()
            .filter_map(|line| line.split(" \"").nth(1).filter(|_| line.contains("HTTP/1.1\" ")));
        requests
            .map(|request| request.split([' ', '?']).take(2).collect::<Vec<_>>().join(" "))
            .collect()
    }

    /// Whether a tag is published, according to the storage and not to the protocol.
    pub fn has_tag(&self, repository: &str, tag: &str) -> bool {
        let tags = format!(
            "data/docker/registry/v2/repositories/{repository}/_manifests/tags/{tag}/current/link"
        );
        self.folder.path().join(tags).exists()
    }
}

/// Copies an image with skopeo into a folder.
pub fn skopeo_copy(image: &str, options: &[&str]) -> Outcome<TempDir> {
    let folder = tempfile::tempdir()?;
    let to = format!("dir:{}", folder.path().display());
    let mut command = guarded(program("skopeo")?);
    command
        .args(["copy", "--insecure-policy"])
        .args(options)
        .args([&format!("docker://{image}"), &to]);
    run(command.env("HOME", folder.path()))?.expect(0)?;
    Ok(folder)
}

/// The file of a blob in a folder of [`skopeo_copy`].
pub fn blob(folder: &Path, descriptor: &Value) -> Outcome<PathBuf> {
    let digest = descriptor["digest"].as_str();
    Ok(folder.join(digest.and_then(|text| text.strip_prefix("sha256:")).context("a digest")?))
}

/// Pulls an image with skopeo, and returns the digest of its manifest, and the module in it.
pub fn skopeo_pull(image: &str, options: &[&str]) -> Outcome<(String, Vec<u8>)> {
    let folder = skopeo_copy(image, options)?;
    let bytes = fs::read(folder.path().join("manifest.json"))?;
    let manifest: Value = serde_json::from_slice(&bytes)?;
    ensure_eq!(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json", "one manifest");
    ensure_eq!(manifest["layers"].as_array().map(Vec::len), Some(1), "layers");
    ensure_eq!(
        manifest["layers"][0]["mediaType"],
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "the layer"
    );
    let tar = Command::new("tar")
        .args(["--extract", "--gzip", "--to-stdout", "--file"])
        .arg(blob(folder.path(), &manifest["layers"][0])?)
        .arg("plugin.wasm")
        .output()?;
    ensure!(tar.status.success(), "tar: {}", String::from_utf8_lossy(&tar.stderr));
    Ok((sha256(&bytes), tar.stdout))
}
