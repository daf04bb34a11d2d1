//! LS501 to LS507, LS802, LS803, LS806: hooks that stop proxies, and what their gate can ask.

mod asked;

use super::statistics::{no_request_gauge, single_managers};
use crate::modules::gates;
use crate::users::addresses;
use manifest_lint::{Checks, Findings, Hook, Inputs, Node, hooks, is_loopback, stop_hooks};

pub(super) const CHECKS: Checks = &[
    ("LS501", clobbers),
    ("LS502", netstat),
    ("LS503", shell),
    ("LS504", drains_the_agent),
    ("LS505", unreachable),
    ("LS506", no_request_gauge),
    ("LS507", single_managers),
    ("LS802", asked::other_question),
    ("LS803", asked::other_port),
    ("LS806", asked::without_hook),
];

fn clobbers<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for lifecycle in
        inputs.keyed("lifecycle").filter(|node| node.has_keys(&["lifecycle", "proxy", "global"]))
    {
        let holds_the_app =
            lifecycle.get("postStart").is_some_and(|node| Hook { node }.runs_agent("wait"));
        let complete = holds_the_app && lifecycle.get("preStop").is_some();
        if lifecycle.entries().next().is_some() && !complete {
            findings.at(lifecycle, "every proxy of the mesh loses Istio's own hooks");
        }
    }
}

fn netstat<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (node, text) in inputs.scalars().filter(|(_, text)| text.contains("netstat -")) {
        let socket_count =
            text.contains("envoy") || text.contains("pilot-agent") || text.contains("LISTEN");
        if socket_count || text.contains("while") {
            let hint = if text.contains("envoy") && !text.contains("pilot-agent") {
                ", and pilot-agent's own 15020 is among them"
            } else {
                ""
            };
            let message = format!("sockets are counted instead of streams{hint}");
            findings.in_text(node, "netstat -", message);
        }
    }
}

const SHELLS: [&str; 4] = ["sh", "bash", "ash", "busybox"];

fn shell<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for hook in hooks(inputs).filter(|hook| hook.is_proxys()) {
        let first = hook.command().and_then(|command| command.items().next());
        let Some(program) = first.and_then(Node::text) else { continue };
        let name = program.rsplit('/').next().unwrap_or(program);
        if let Some(node) = first.filter(|_| SHELLS.contains(&name)) {
            findings.at(node, format!("`{program}` is not in distroless images"));
        }
    }
}

fn drains_the_agent<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for hook in stop_hooks(inputs) {
        let words = hook.words();
        let asks_agent = hook.runs_agent("request")
            && words.windows(2).any(|pair| pair == ["POST", "drain"] || pair == ["POST", "/drain"]);
        let posts = words.iter().find(|word| word.contains(":15020/drain"));
        let place = if asks_agent {
            hook.item_with("drain")
        } else {
            posts.and_then(|word| hook.item_with(word))
        };
        if let Some(place) = place {
            findings.in_text(place, "drain", "after this, SIGTERM cuts what still runs");
        }
    }
}

fn unreachable<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let addresses = gates(inputs).flat_map(|(module, _)| addresses(inputs, module));
    let loopback: Vec<u64> =
        addresses.filter(|(address, _)| is_loopback(*address)).map(|(_, port)| port).collect();
    for http in stop_hooks(inputs).filter_map(|hook| hook.node.get("httpGet")) {
        let Some(port) = http.get("port") else { continue };
        let path =
            http.get("path").and_then(Node::text).unwrap_or_default().trim_start_matches('/');
        match port.number() {
            Some(15000) => {
                findings.at(port, "Envoy's admin port listens on the loopback interface only")
            }
            Some(15020) if ["drain", "quitquitquit"].contains(&path) => {
                findings.at(port, format!("/{path} is POST only, and from localhost only"))
            }
            Some(number) if loopback.contains(&number) => {
                findings.at(port, "the gate listens on the loopback interface only")
            }
            _ => {}
        }
    }
}
