//! The network of a pod: a separate namespace, with one address that this machine reaches.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::isolation::{folder, run_tool};
use crate::program::Program;
use kit::prelude::*;
use kit::process::guarded;

/// A network namespace. It ends with the process that holds it.
pub(crate) struct Network {
    number: u8,
    pid: u32,
    _holder: Program,
}

impl Network {
    /// Makes a network whose addresses follow from the number: 10.99.NUMBER.1 is this machine, and
    /// .2 is the pod.
    pub(crate) async fn new(number: u8) -> Outcome<Self> {
        let mut command = guarded("unshare");
        command.args(["--net", "sleep", "infinity"]);
        let mut holder =
            Program::start(&format!("network-{number}"), command, &folder("networks")?)?;
        let network = Self { number, pid: holder.process().pid(), _holder: holder };
        let own = fs::read_link("/proc/self/ns/net")?;
        wait_for(PATIENCE, "the network of a pod", async || {
            ensure!(fs::read_link(network.file())? != own, "it is not there yet");
            Ok(())
        })
        .await?;
        network.connect()?;
        Ok(network)
    }

    fn connect(&self) -> Outcome {
        let (pid, pair) = (self.pid.to_string(), format!("pod{}", self.number));
        let machine = format!("{}/24", self.machine());
        let pod = format!("{}/24", self.address(0).ip());
        let peer = ["type", "veth", "peer", "name", "eth0", "netns", &pid];
        run_tool("ip", &[&["link", "add", &pair][..], &peer].concat())?;
        run_tool("ip", &["address", "add", &machine, "dev", &pair])?;
        run_tool("ip", &["link", "set", &pair, "up"])?;
        self.inside(&["link", "set", "lo", "up"])?;
        self.inside(&["address", "add", &pod, "dev", "eth0"])?;
        self.inside(&["link", "set", "eth0", "up"])?;
        self.inside(&["route", "add", "default", "via", &self.machine()])
    }

    fn inside(&self, words: &[&str]) -> Outcome {
        run_tool("nsenter", &[&[&*self.option(), "ip"], words].concat())
    }

    fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.pid).into()
    }

    fn option(&self) -> String {
        format!("--net={}", self.file().display())
    }

    /// The same command, run in this network.
    pub(crate) fn enter(&self, command: &Command) -> Command {
        let mut inside = guarded("nsenter");
        inside.arg(self.option()).arg("--").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    /// The address of this machine in the pod's network.
    pub(crate) fn machine(&self) -> String {
        format!("10.99.{}.1", self.number)
    }

    pub(crate) fn address(&self, port: u16) -> SocketAddr {
        ([10, 99, self.number, 2], port).into()
    }
}
