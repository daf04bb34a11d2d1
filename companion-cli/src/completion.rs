//! Completion of words in shells: commands and options, the contexts of the kubeconfig, and names
//! that the API server knows. An error completes nothing.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Arg, Command, FromArgMatches as _};
use clap_complete::CompleteEnv;
use clap_complete::engine::{self, ArgValueCandidates, CompletionCandidate};
use laststream_base::env_vars::{self, LASTSTREAM_COMPLETE};
use laststream_fleet::{Access, Cluster, FleetError, Selection, client};

use crate::args::cluster::connect;
use crate::cli::Arguments;

/// The longest wait for the API server, because a user waits at the prompt.
const PATIENCE: Duration = Duration::from_secs(1);

/// Answers the script of a shell and ends the process, if such a script has called.
pub(crate) fn answer_shell() {
    let words: Vec<OsString> =
        std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    CompleteEnv::with_factory(|| command(&words)).var(LASTSTREAM_COMPLETE).complete();
}

/// The completions of the last word, one a line, and the directive with which cobra, kubectl's own
/// library, ends its list: 4 means that file names are no candidates.
pub(crate) fn for_kubectl(words: impl Iterator<Item = OsString>) -> String {
    let words: Vec<OsString> = [env!("CARGO_BIN_NAME").into()].into_iter().chain(words).collect();
    let last = words.len() - 1;
    let candidates = engine::complete(&mut command(&words), words, last, None).unwrap_or_default();
    let lines = candidates.iter().map(|it| format!("{}\n", it.get_value().display()));
    let directive = if candidates.is_empty() { 0 } else { 4 };
    lines.collect::<String>() + &format!(":{directive}")
}

/// The command line, with candidates for the commands that ask a cluster. The options among these
/// words say which one.
fn command(words: &[OsString]) -> Command {
    Arguments::shown().mut_subcommands(|command| {
        if command.get_arguments().all(|argument| argument.get_id() != "context") {
            return command;
        }
        command.mut_args(|argument| with_names(argument, words))
    })
}

fn with_names(argument: Arg, words: &[OsString]) -> Arg {
    let names: fn(&Access) -> Option<Vec<String>> = match argument.get_id().as_str() {
        "context" => |access| access.contexts(&env_vars::of_process).ok(),
        "namespace" => |access| ask(access, async |cluster| cluster.namespaces().await),
        "names" => |access| ask(access, pods),
        _ => return argument,
    };
    let words = words.to_vec();
    argument.add(ArgValueCandidates::new(move || {
        let names = access(&words).and_then(|access| names(&access)).unwrap_or_default();
        names.into_iter().map(CompletionCandidate::new).collect()
    }))
}

/// The options for the cluster among words that may not be complete.
fn access(words: &[OsString]) -> Option<Access> {
    let matches = Arguments::shown().ignore_errors(true).try_get_matches_from(words).ok()?;
    let (_, command) = matches.subcommand()?;
    Access::from_arg_matches(command).ok()
}

/// The names of the pods that the commands can ask.
async fn pods(cluster: &Cluster) -> Result<Vec<String>, FleetError> {
    let pods = cluster.pods(&Selection::default()).await?;
    Ok(pods.into_iter().filter(|pod| pod.proxy.is_some()).map(|pod| pod.name).collect())
}

fn ask(
    access: &Access,
    question: impl AsyncFnOnce(&Cluster) -> Result<Vec<String>, FleetError>,
) -> Option<Vec<String>> {
    let runtime = client::runtime().ok()?;
    let answer = async { question(&connect(access, None).await?).await };
    let names = runtime.block_on(async { tokio::time::timeout(PATIENCE, answer).await });
    runtime.shutdown_background(); // a hanging credential program must not delay the prompt
    names.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::for_kubectl;

    #[test]
    fn verbs_and_options_are_completed() {
        let of = |words: &[&str]| for_kubectl(words.iter().map(Into::into));
        assert_eq!(of(&["roll"]), "rollout\n:4");
        assert_eq!(of(&["status", "--sel"]), "--selector\n:4");
        assert_eq!(of(&["render", "overl"]), "overlay\n:4");
        assert_eq!(of(&["render", "x"]), ":0");
        assert!(!of(&[""]).contains("guarded"));
    }
}
