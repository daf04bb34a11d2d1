//! A pod of Envoy Gateway's Deployment, whose containers are processes with the commands, files and
//! hooks of the Deployment. Images are not pulled: Envoy is the newest supported version, and the
//! program is the one under test.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::time::{sleep, timeout_at};

use super::controller::{HOST, NAMESPACE, write_secret};
use super::network::Network;
use super::root::Root;
use super::world::World;
use crate::parts::part;
use crate::program::{Program, ask};
use kit::prelude::*;
use kit::user;
use kit::wire::local;
use rustix::process::Signal;

/// The port of Envoy for port 80 of a Gateway.
pub(crate) const PORT: u16 = 10080;
pub(crate) const GATE: u16 = 16091;

pub(crate) struct Pod<'w> {
    world: &'w World,
    spec: Value,
    root: Root,
    network: Option<Network>,
    containers: Vec<(Value, Program)>,
    /// Init containers that go on.
    sidecars: Vec<Program>,
}

/// How a container was stopped. Times count from the deletion.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// The hook's exit code, status code or error.
    pub(crate) hook: String,
    pub(crate) signalled: Duration,
    pub(crate) ended: Duration,
}

impl<'w> Pod<'w> {
    /// Starts the containers as kubelet does, in the network of this machine, so only one pod can
    /// run.
    pub(crate) async fn start(world: &'w World, deployment: &Value) -> Outcome<Self> {
        Self::start_in(world, deployment, None).await
    }

    /// Starts the containers, and waits until Envoy answers.
    pub(crate) async fn serving(world: &'w World, deployment: &Value) -> Outcome<Self> {
        let mut pod = Self::start(world, deployment).await?;
        pod.ready().await?;
        Ok(pod)
    }

    /// Starts the containers as kubelet does.
    pub(crate) async fn start_in(
        world: &'w World,
        deployment: &Value,
        network: Option<Network>,
    ) -> Outcome<Self> {
        let name = deployment["metadata"]["name"].as_str().context("a name")?;
        let root = Root::new(&format!("{name}-{}", fastrand::u32(..)))?;
        if let Some(network) = &network {
            let hosts = root.folder("/tmp")?.join("hosts");
            fs::write(&hosts, format!("127.0.0.1 localhost\n{} {HOST}\n", network.machine()))?;
            root.bind(&hosts, "/etc/hosts")?;
        }
        let spec = deployment["spec"]["template"]["spec"].clone();
        let (containers, sidecars) = (Vec::new(), Vec::new());
        let mut pod = Self { world, spec, root, network, containers, sidecars };
        pod.volumes(name).await?;
        world.controller.forget("/tmp/shutdown-ready");
        for init in pod.spec["initContainers"].as_array().cloned().unwrap_or_default() {
            let program = init["command"][0].as_str().with_context(|| format!("{init:#}"))?;
            // Writing to a mounted program would empty it.
            if !pod.root.path(program).exists() {
                pod.root.program(user::hook()?, program)?;
            }
            if init["restartPolicy"] == "Always" {
                let started = pod.begin(&init)?;
                pod.sidecars.push(started);
            } else {
                ask(pod.command(&init), "").await?.expect(0)?;
            }
        }
        for container in pod.spec["containers"].as_array().context("containers")?.clone() {
            let program = pod.begin(&container)?;
            pod.containers.push((container, program));
        }
        Ok(pod)
    }

    fn begin(&self, container: &Value) -> Outcome<Program> {
        let name = container["name"].as_str().context("a name")?;
        Program::start(name, self.command(container), &self.root.folder("/tmp")?)
    }

    /// Waits until Envoy answers requests through the Gateway.
    pub(crate) async fn ready(&mut self) -> Outcome {
        let address = self.address(PORT);
        let (_, envoy) = self.containers.first_mut().context("a container")?;
        let answers = async || once(address, &Request::get("/")).await?.expect(200).map(drop);
        envoy.ready(PATIENCE, answers).await.with_context(|| self.world.controller.log())
    }

    /// The address at which the pod is reached.
    pub(crate) fn address(&self, port: u16) -> SocketAddr {
        self.network.as_ref().map_or(local(port), |network| network.address(port))
    }

    pub(crate) fn envoy(&mut self) -> Outcome<&mut Program> {
        self.containers.first_mut().map(|(_, envoy)| envoy).context("a container")
    }

    async fn volumes(&self, name: &str) -> Outcome {
        self.root.program(part("envoy")?, "/envoy")?;
        self.root.folder("/opt/laststream-program")?;
        let module = laststream_module::builtin().map_err(Error::msg)?;
        fs::write(self.root.folder("/opt/laststream")?.join("plugin.wasm"), module)?;
        write_secret(&self.world.cluster, "envoy", &self.root.folder("/certs")?).await?;
        let sds = self.root.folder("/sds")?;
        let map = self.world.cluster.get(NAMESPACE, &format!("configmap/{name}")).await?;
        for (file, text) in map["data"].as_object().context("data")? {
            fs::write(sds.join(file), text.as_str().unwrap_or_default())?;
        }
        Ok(())
    }

    /// The words of a command, with the values of the container's variables. The controller's name
    /// is replaced by this machine's address.
    fn words(&self, container: &Value, list: &Value) -> Vec<String> {
        let machine = self.network.as_ref().map_or_else(|| "127.0.0.1".into(), Network::machine);
        let variables: Vec<(String, &str)> = container["env"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|each| {
                let name = each["name"].as_str().unwrap_or_default();
                (format!("$({name})"), each["value"].as_str().unwrap_or("laststream"))
            })
            .collect();
        let words = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        words
            .map(|word| {
                let word = word.replace(&format!("{HOST}."), &machine);
                variables.iter().fold(word, |word, (name, value)| word.replace(name, value))
            })
            .collect()
    }

    fn command(&self, container: &Value) -> Command {
        let words = self.words(container, &container["command"]);
        let (first, more) = words.split_first().map_or(("", &[][..]), |(a, b)| (&**a, b));
        let mut command = self.program(first);
        command.args(more).args(self.words(container, &container["args"]));
        command
    }

    fn program(&self, name: &str) -> Command {
        let command = match name {
            "envoy" => self.root.command("/envoy"),
            "envoy-gateway" => self.world.controller.command(),
            other => self.root.command(other),
        };
        match &self.network {
            Some(network) => network.enter(&command),
            None => command,
        }
    }

    /// Stops the containers as kubelet does: all hooks at once, SIGTERM after each, SIGKILL after
    /// the grace period. Envoy is the first of them.
    pub(crate) async fn stop(&mut self) -> Outcome<Vec<Stopped>> {
        ensure_eq!(self.spec["containers"][0]["name"], "envoy", "the first container");
        let begun = Instant::now();
        let mut containers = std::mem::take(&mut self.containers);
        let stopped =
            try_join_all(containers.iter_mut().map(|each| self.stop_container(each, begun)));
        let stopped = stopped.await?;
        for sidecar in &mut self.sidecars {
            sidecar.process().signal(Signal::TERM).ok(); // it may have ended
            sidecar.process().wait(PATIENCE).await.with_context(|| sidecar.tail())?;
        }
        Ok(stopped)
    }

    async fn stop_container(
        &self,
        (container, program): &mut (Value, Program),
        begun: Instant,
    ) -> Outcome<Stopped> {
        let grace = self.spec["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
        let end = begun + Duration::from_secs(grace);
        let hook = match timeout_at(end.into(), self.hook(&container["lifecycle"]["preStop"])).await
        {
            Ok(Ok(said)) => said,
            Ok(Err(failure)) => format!("{failure:#}"),
            Err(_) => "the grace period was over".into(),
        };
        let signalled = begun.elapsed();
        program.process().signal(Signal::TERM).ok(); // it may have ended
        while program.process().exited()?.is_none() {
            if Instant::now() > end + Duration::from_secs(2) {
                program.process().kill()?;
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(Stopped { hook, signalled, ended: begun.elapsed() })
    }

    async fn hook(&self, hook: &Value) -> Outcome<String> {
        if let Some(path) = hook["httpGet"]["path"].as_str() {
            let port = hook["httpGet"]["port"].as_u64().and_then(|port| u16::try_from(port).ok());
            let at = self.address(port.context("a port")?);
            // A container that has just started may not listen yet.
            let connect = async || Client::connect(at).await;
            let client = wait_for(PATIENCE, "the hook's port", connect).await?;
            let mut client = client.patience(Duration::from_secs(600));
            return Ok(client.get(path).await?.status.to_string());
        }
        let words = self.words(&Value::Null, &hook["exec"]["command"]);
        let [program, arguments @ ..] = &words[..] else { return Ok("none".into()) };
        let mut command = self.program(program);
        command.args(arguments);
        let said = ask(command, "").await?;
        Ok(format!("exit code {}", said.code.unwrap_or(-1)))
    }
}
