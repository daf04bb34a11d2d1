//! A real Envoy: started with a configuration, watched through its admin interface, and never left
//! behind.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::admin::Admin;
use crate::admin_cluster::AdminCluster;
use crate::h1::Response;
use crate::process::{self, Process, guarded, read_log};
use crate::trial::Notes;
use crate::wait::{PATIENCE, wait_for};
use crate::{Context as _, Outcome, bail, ensure};

/// The options with which Envoy is started: `Options { concurrency: 1, ..Options::default() }`
pub struct Options {
    pub concurrency: u32,
    pub log_level: String,
    pub component_log_level: String,
    pub drain_time_s: Option<u32>,
    /// Further arguments.
    pub extra: Vec<String>,
    /// A program that runs Envoy and becomes its process, with its arguments, such as `valgrind`.
    pub under: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let (log_level, component_log_level) = ("info".into(), "wasm:debug".into());
        Self {
            concurrency: 2,
            log_level,
            component_log_level,
            drain_time_s: None,
            extra: Vec::new(),
            under: Vec::new(),
        }
    }
}

pub struct Envoy {
    process: Process,
    folder: TempDir,
    admin: Admin,
    notes: Arc<Notes>,
}

impl Envoy {
    /// Starts Envoy and waits until it is live.
    pub async fn start(binary: &Path, config: Value, options: Options) -> Outcome<Self> {
        let folder =
            tempfile::Builder::new().prefix("envoy-").tempdir().context("a folder for Envoy")?;
        let mut config = config;
        let admin_cluster = AdminCluster::prepare(&mut config, folder.path())?;
        let arguments = options.arguments(folder.path());
        let process = launch(&options.under, binary, &config, folder.path(), &arguments)?;
        let admin = Admin(([127, 0, 0, 1], 0).into()); // until Envoy has written it
        let mut envoy = Self { process, folder, admin, notes: Notes::current() };
        let address = envoy.starting("the admin address", async |envoy| {
            let address = fs::read_to_string(envoy.folder.path().join("admin"))?;
            Ok(address.trim().parse::<SocketAddr>()?)
        });
        envoy.admin = Admin(address.await?);
        let live = envoy.starting("Envoy to be live", async |envoy| {
            let state = envoy.admin_get("/ready").await?.text();
            ensure!(state.trim() == "LIVE", "{state}");
            Ok(())
        });
        live.await?;
        admin_cluster.publish(envoy.admin).await?;
        Ok(envoy)
    }

    pub fn admin(&self) -> SocketAddr {
        self.admin.0
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.exited(), Ok(None))
    }

    /// SIGTERM.
    pub fn terminate(&mut self) -> Outcome {
        self.process.signal(Signal::TERM)
    }

    pub fn kill(&mut self) -> Outcome<ExitStatus> {
        self.process.kill()
    }

    pub async fn exited(&mut self, limit: Duration) -> Outcome<ExitStatus> {
        self.process.wait(limit).await
    }

    pub async fn admin_get(&self, path: &str) -> Outcome<Response> {
        self.admin.get(path).await
    }

    /// Waits until a listener is bound, TCP or UDP, and returns its address.
    pub async fn address(&self, listener: &str) -> Outcome<SocketAddr> {
        self.until(&format!("listener {listener}"), async |envoy| {
            let statuses = envoy.admin_get("/listeners?format=json").await?.json()?;
            let all = statuses["listener_statuses"].as_array().context("no listeners yet")?;
            let ours = all
                .iter()
                .find(|status| status["name"] == listener)
                .with_context(|| format!("other listeners: {statuses}"))?;
            let socket = &ours["local_address"]["socket_address"];
            let port = socket["port_value"]
                .as_u64()
                .and_then(|port| u16::try_from(port).ok())
                .context("no port")?;
            let address =
                socket["address"].as_str().context("no address")?.parse::<std::net::IpAddr>()?;
            ensure!(port != 0, "not bound yet");
            Ok(SocketAddr::new(address, port))
        })
        .await
    }

    pub async fn port(&self, listener: &str) -> Outcome<u16> {
        Ok(self.address(listener).await?.port())
    }

    /// Every counter and gauge.
    pub async fn stats(&self) -> Outcome<BTreeMap<String, u64>> {
        self.admin.stats().await
    }

    /// One counter or gauge; nothing when Envoy does not know it.
    pub async fn stat(&self, name: &str) -> Outcome<Option<u64>> {
        self.admin.stat(name).await
    }

    pub async fn prometheus(&self) -> Outcome<String> {
        Ok(self.admin_get("/stats/prometheus").await?.expect(200)?.text())
    }

    /// Waits until one counter or gauge has this value.
    pub async fn wait_for_stat(&self, name: &str, expected: u64, limit: Duration) -> Outcome {
        let looked = wait_for(limit, name, async || {
            let value = self.stat(name).await?;
            ensure!(value == Some(expected), "{name} is {value:?}");
            Ok(())
        });
        looked.await.with_context(|| self.tail())
    }

    pub fn log(&self) -> String {
        read_log(&self.folder.path().join("log"))
    }

    pub fn log_contains(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    /// Waits for a line that contains the text, and returns the first one.
    pub async fn wait_for_log(&self, text: &str, limit: Duration) -> Outcome<String> {
        let found = async || {
            self.log()
                .lines()
                .find(|line| line.contains(text))
                .map(String::from)
                .context("no such line")
        };
        wait_for(limit, &format!("{text:?} in Envoy's log"), found)
            .await
            .with_context(|| self.tail())
    }

    /// The end of the log.
    pub fn tail(&self) -> String {
        tail(&self.log())
    }

    async fn until<T>(&self, what: &str, look: impl AsyncFn(&Self) -> Outcome<T>) -> Outcome<T> {
        wait_for(PATIENCE, what, async || look(self).await).await.with_context(|| self.tail())
    }

    /// [`Self::until`] for an Envoy that may end instead.
    async fn starting<T>(
        &mut self,
        what: &str,
        look: impl AsyncFn(&Self) -> Outcome<T>,
    ) -> Outcome<T> {
        let mut ended = None;
        let found = wait_for(PATIENCE, what, async || {
            ended = self.process.exited()?;
            if ended.is_some() { Ok(None) } else { look(&*self).await.map(Some) }
        });
        match found.await.with_context(|| self.tail())? {
            Some(found) => Ok(found),
            None => bail!("Envoy ended at its start, {ended:?}\n{}", self.tail()),
        }
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let state = if self.is_alive() { "running" } else { "ended" };
        self.notes.add(format!("Envoy {} ({state}), {}", self.pid(), self.tail()));
    }
}

impl Options {
    fn arguments(&self, folder: &Path) -> Vec<String> {
        let Self { concurrency, log_level, component_log_level, .. } = self;
        let mut words = format!(
            "--concurrency {concurrency} --log-level {log_level} --component-log-level \
             {component_log_level} --file-flush-interval-msec 100"
        );
        if let Some(seconds) = self.drain_time_s {
            words += &format!(" --drain-time-s {seconds}");
        }
        // No shared memory between generations: a killed Envoy would leave its segment in /dev/shm
        // for ever.
        if !self.extra.iter().any(|argument| argument.contains("base-id")) {
            words += " --disable-hot-restart";
        }
        let admin = ["--admin-address-path".into(), folder.join("admin").display().to_string()];
        let words = words.split(' ').map(String::from);
        words.chain(admin).chain(self.extra.iter().cloned()).collect()
    }
}

fn launch(
    under: &[String],
    binary: &Path,
    config: &Value,
    folder: &Path,
    arguments: &[String],
) -> Outcome<Process> {
    let file: PathBuf = folder.join("bootstrap.json");
    fs::write(&file, serde_json::to_vec_pretty(config)?).context("writing the bootstrap")?;
    let log = File::create(folder.join("log")).context("creating the log")?;
    let words: Vec<&OsStr> = under.iter().map(OsStr::new).chain([binary.as_os_str()]).collect();
    let mut command = guarded(words[0]);
    command
        .args(&words[1..])
        .arg("-c")
        .arg(&file)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    Process::spawn(command)
}

/// The end of a log without the list of extensions that every Envoy begins with.
fn tail(log: &str) -> String {
    let telling = |line: &&str| {
        !(line.contains("[info][main]") && (line.contains("]   ") || line.contains(" header map")))
    };
    process::tail(log.lines().filter(telling))
}
