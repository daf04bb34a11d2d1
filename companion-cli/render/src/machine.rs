//! The gate as a program beside an Envoy without Kubernetes: a systemd unit, or Envoy's parent
//! process in a compose file.

use laststream_base::yaml::{List, Map};
use laststream_policy::{KUBELET, Policy, PolicyProblem};

use super::envoy::{DRAIN_STRATEGY, addresses, placed};
use super::files::{File, head, other};
use super::hook;
use super::kind::misplaced;
use super::program::{IMAGE_PROGRAM, configuration};
use super::volume::Program;

/// The program on a machine.
const OWN_PROGRAM: &str = "/usr/local/bin/laststream";

/// The files for an Envoy on a machine: a unit for the gate, what Envoy's unit needs, and a compose
/// file if the policy has an image of the program.
pub(super) fn files(policy: &Policy) -> Result<Vec<File>, PolicyProblem> {
    let envoy = placed(policy)?;
    let Some(port) = policy.gate_port.filter(|_| policy.is_program()) else {
        return misplaced("has no gate that is a program: write `delivery: program`");
    };
    let [_, _, admin] = addresses(envoy)?;
    let arguments = vec![
        "gate".to_owned(),
        format!("--envoy={admin}"),
        format!("--listen=127.0.0.1:{port}"),
        format!("--config-json={}", configuration(policy)),
    ];
    let mut files = vec![unit(&arguments), drop_in(policy, port)];
    files.extend(
        policy.file.program_image.as_deref().map(|image| compose(policy, image, &arguments)),
    );
    Ok(files)
}

fn unit(arguments: &[String]) -> File {
    let words: Vec<String> = arguments.iter().map(|word| systemd_word(word)).collect();
    let text = format!(
        "# {}\n\
         # /etc/systemd/system/laststream-gate.service\n\
         [Unit]\n\
         Description=The gate of envoy.service\n\
         # So it stops after Envoy.\n\
         Before=envoy.service\n\n\
         [Service]\n\
         ExecStart={OWN_PROGRAM} {}\n\
         Restart=on-failure\n\
         DynamicUser=yes\n\n\
         [Install]\n\
         WantedBy=envoy.service\n",
        head(),
        words.join(" ")
    );
    plain("laststream-gate.service", text)
}

fn drop_in(policy: &Policy, port: u16) -> File {
    let sizing = &policy.sizing;
    let text = format!(
        "# {}\n\
         # /etc/systemd/system/envoy.service.d/laststream.conf\n\
         # Envoy itself needs `{DRAIN_STRATEGY}`: otherwise busy connections of clients stay.\n\
         [Unit]\n\
         Wants=laststream-gate.service\n\n\
         [Service]\n\
         # Waits until the gate is open, which it is when it is drained, or over.\n\
         # systemd also runs it when Envoy has ended by itself.\n\
         ExecStop=/bin/sh -c 'test -z \"$$MAINPID\" || exec {OWN_PROGRAM} prestop \
            --gate=http://127.0.0.1:{port} --timeout={}s'\n\
         # {} until the gate's deadline, and {KUBELET} for Envoy's own end.\n\
         TimeoutStopSec={}\n",
        head(),
        hook::timeout(policy),
        sizing.deadline,
        (sizing.deadline + KUBELET).rounded_up().whole_seconds(),
    );
    plain("envoy.service.conf", text)
}

fn plain(name: &str, text: String) -> File {
    File { name: name.into(), text, applies: false }
}

/// A word of `ExecStart`: systemd reads quotes, `%` and `$` in it.
fn systemd_word(word: &str) -> String {
    let word = word.replace('\\', r"\\").replace('%', "%%").replace('$', "$$");
    if word.contains([' ', '"', '\'']) {
        format!("\"{}\"", word.replace('"', "\\\""))
    } else {
        word
    }
}

/// Envoy as the child process of the gate, which needs no hook.
fn compose(policy: &Policy, image: &str, arguments: &[String]) -> File {
    let (service, folder) = ("laststream-program", Program::folder());
    let install = Map::of("image", image)
        .with("command", List::of(IMAGE_PROGRAM).item("install").item(folder))
        .note("A volume of Docker is root's.")
        .with("user", "0")
        .with("volumes", List::of(format!("{service}:{folder}")));
    let condition = Map::of("condition", "service_completed_successfully");
    // Compose replaces what begins with `$`.
    let words = arguments.iter().map(|word| word.replace('$', "$$"));
    let entrypoint = List::of(Program::path());
    let entrypoint = words.chain(["--".to_owned()]).fold(entrypoint, List::item);
    let command = ["envoy", "-c", "/etc/envoy/envoy.yaml"];
    let command = command.into_iter().chain(DRAIN_STRATEGY.split(' ')).collect::<List>();
    let grace = policy.sizing.deadline + KUBELET;
    let envoy = Map::of("depends_on", Map::of(service, condition))
        .note("SIGTERM begins the drain, and Envoy ends at zero.")
        .with("entrypoint", entrypoint)
        .note("Your own command of Envoy.")
        .with("command", command)
        .with("stop_grace_period", grace.rounded_up().to_string())
        .with("volumes", List::of(format!("{service}:{folder}:ro")));
    let services = Map::of(service, install)
        .note("The name of Envoy's service in your own file.")
        .with("envoy", envoy);
    let file = Map::of("services", services).with("volumes", Map::of(service, Map::new()));
    let about = ["Merged over your own file: docker compose -f compose.yaml -f \
        laststream.compose.yaml up"];
    other("laststream.compose.yaml", &about.map(String::from), file)
}
