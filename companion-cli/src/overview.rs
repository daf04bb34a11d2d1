//! The first page of the help: the commands by purpose, and answers to names that other programs
//! have.

/// The template of the first page. A line may name several commands.
pub(crate) const TEMPLATE: &str = concat!(
    "\
{about}

{usage-heading} {usage}
Start here: laststream assess FILES

A first look:
  assess          says what your proxies' next stop cuts
  demo            shows what is lost when a pod is deleted
  run             runs a real Envoy with the module in front of your app
Installation:
  push            publishes the module as an image
  module          writes the module to a file, for an Envoy without a mesh
  render          writes all manifests from one policy file
  lint            finds mistakes in manifests that lose requests
  config          checks the module's configuration; prints schemas
  inspect         tells which module an image or a file holds
Operation:
  status, streams ask the gate, or those of many pods, what they wait for
  rollout         follows a rollout to its last stream
  drain           begins, cancels or forces a drain
  prestop         begins a drain and waits, as a stop hook does
  wait            waits until the gate is open
  exec            runs a Job's command beside a sidecar, and ends the sidecar
  gate            is the gate beside an Envoy that has no module
Capacity:
  size            proposes the times of a drain from real requests
  deletion-cost   lets a scale-down take the emptiest pod
Tools:
  build           compiles the module from a clone
  envoy           finds or downloads an Envoy
  version         prints versions and checksums
  completions, man help for shells, manual pages

Exit codes: 0 success, 1 a negative result, 2 the command failed, 64 wrong
arguments. `laststream COMMAND --help` shows options and examples.
Documents: ",
    env!("CARGO_PKG_REPOSITORY"),
    "/tree/main/docs\n"
);

/// The error for a name that other programs have.
pub(crate) fn way_out(name: &str) -> Option<&'static str> {
    Some(match name {
        "check" => "no `check`: `lint` checks manifests, `config check` a configuration",
        "validate" => "no `validate`: `lint` checks manifests, `config check` a configuration",
        "doctor" => "no `doctor`: `status` asks running gates, `lint` checks manifests",
        "init" => "no `init`: `push` publishes the module, `render all` writes the manifests",
        "install" => {
            "`install DIR` only copies this program: `push` publishes the module, `render all` \
                writes the manifests"
        }
        "uninstall" => "no `uninstall`: delete what `render all` wrote (docs/operate.md#uninstall)",
        "upgrade" => "no `upgrade`: `push`, then `render all` again (docs/operate.md#upgrade)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn every_command_is_in_one_group_and_all_fit_on_a_screen() {
        let program = Arguments::shown();
        let rows = TEMPLATE.lines().filter_map(|line| line.strip_prefix("  ")?.get(..16));
        let listed: Vec<&str> = rows.flat_map(|names| names.trim_end().split(", ")).collect();
        assert!(listed.iter().all(|name| program.find_subcommand(name).is_some()), "{listed:?}");
        for command in program.get_subcommands().map(Command::get_name) {
            let count = listed.iter().filter(|name| **name == command).count();
            assert!(count == 1 || command == "help", "{command}: {count}");
        }
        let help = program.clone().render_long_help().to_string();
        assert!(help.lines().count() <= 40, "{help}");
        assert!(help.lines().all(|line| line.len() <= 80), "{help}");
    }
}
