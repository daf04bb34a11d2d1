//! The machine and the versions to which the figures belong.

use std::fs;
use std::process::Command;

use laststream_base::digest::Digest;
use serde::Serialize;

use crate::site::Site;
use kit::programs::program;
use kit::{Context as _, Outcome};

#[derive(Default, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) envoy: String,
    pub(crate) valgrind: String,
    pub(crate) module_bytes: usize,
    pub(crate) module_digest: String,
}

impl Machine {
    pub(crate) fn describe(site: &Site) -> Outcome<Self> {
        let processors = fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
        let processor = processors
            .lines()
            .find(|line| line.starts_with("model name"))
            .and_then(|line| line.split_once(": "));
        let kernel =
            fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's version")?;
        let valgrind = Command::new(program("valgrind")?)
            .arg("--version")
            .output()
            .map(|output| output.stdout)
            .unwrap_or_default();
        let module = fs::read(&site.module).context("the module")?;
        Ok(Self {
            processor: processor.map_or("unknown", |(_, name)| name).trim().into(),
            cores: std::thread::available_parallelism().context("the number of cores")?.get(),
            kernel: kernel.trim().into(),
            envoy: site.version.to_string(),
            valgrind: String::from_utf8_lossy(&valgrind)
                .trim()
                .trim_start_matches("valgrind-")
                .into(),
            module_bytes: module.len(),
            module_digest: Digest::of(&module).as_str().into(),
        })
    }

    pub(crate) fn in_words(&self) -> String {
        format!(
            "{}, {} cores, Linux {}, Envoy {}, valgrind {}, a module of {} bytes ({})",
            self.processor,
            self.cores,
            self.kernel,
            self.envoy,
            self.valgrind,
            self.module_bytes,
            self.module_digest
        )
    }
}
