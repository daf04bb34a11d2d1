//! Gates that are programs beside Envoy: containers that run `laststream gate`.

use std::collections::HashMap;

use laststream_base::ports;
use laststream_filter::config::read_wire;
use manifest_lint::words::nearest_of;
use manifest_lint::{Inputs, Node};

const PROGRAMS: [&str; 2] = ["laststream", "laststream-hook"];
pub(super) const COMMAND: &str = "gate";

/// A container that runs the gate.
#[derive(Clone, Copy)]
pub(super) struct GateProgram<'g> {
    container: Node<'g>,
}

impl<'g> GateProgram<'g> {
    fn of(command: Node<'g>) -> Option<Self> {
        let mut words = command.items().map(|item| item.text().unwrap_or_default());
        let program = words.next()?.rsplit('/').next()?;
        nearest_of(words.next()?, COMMAND).filter(|_| PROGRAMS.contains(&program))?;
        Some(Self { container: command.parent()? })
    }

    pub(super) fn name(self) -> &'g str {
        self.container.text_of("name").unwrap_or(COMMAND)
    }

    /// The words behind the program's name, without those of Envoy's own command.
    pub(super) fn words(self) -> impl Iterator<Item = (Node<'g>, &'g str)> {
        let items = self.container.list("command").skip(1).chain(self.container.list("args"));
        let words = items.map(|item| (item, item.text().unwrap_or_default()));
        words.take_while(|(_, word)| *word != "--")
    }

    fn option(self, name: &str) -> Option<&'g str> {
        let value = |word: &'g str| word.strip_prefix(name)?.strip_prefix('=');
        self.words().find_map(|(_, word)| value(word))
    }

    /// The port of its listener.
    pub(super) fn port(self) -> Option<u64> {
        match self.option("--listen") {
            Some(address) => address.rsplit_once(':')?.1.parse().ok(),
            None => Some(ports::GATE.into()),
        }
    }

    /// The deadline in milliseconds; none if it is in a file.
    pub(super) fn deadline_ms(self) -> Option<u64> {
        if self.words().any(|(_, word)| word == "--config" || word.starts_with("--config=")) {
            return None;
        }
        let text = self.option("--config-json").unwrap_or_default();
        let wire = read_wire(text.as_bytes()).ok()?;
        Some(wire.gate.unwrap_or_default().deadline_ms)
    }
}

/// The programs by the spec of their pods.
pub(super) fn gate_programs(inputs: &Inputs) -> HashMap<Node<'_>, GateProgram<'_>> {
    let programs = inputs.keyed("command").filter_map(GateProgram::of);
    programs.filter_map(|program| Some((pod_spec(program.container)?, program))).collect()
}

/// The spec of the pod around a node, wherever that is written.
pub(super) fn pod_spec(node: Node<'_>) -> Option<Node<'_>> {
    node.upwards().find(|outer| outer.get("containers").is_some())
}
