//! Levels of the mesh, and the cases on them. From outside they are only listed or handed on;
//! inside its namespaces a level runs.

use std::process::ExitCode;
use std::thread;

use libtest_mimic::{Arguments, Conclusion, Trial};

use crate::{isolation, parts, seen};
use kit::{Outcome, completion, say};

/// Cases that share a world, which is started by the first of them.
pub(crate) struct Level {
    /// Begins the names of its trials, so it is a filter on the command line, too.
    pub(crate) name: &'static str,
    pub(crate) needs_root: bool,
    /// Whether cgroups are made, which do not end with the namespaces.
    pub(crate) makes_cgroups: bool,
    /// What `tests/tools/program` must give.
    pub(crate) parts: &'static [&'static str],
    /// How many cases run at a time; as many as there are processors if nothing is said.
    pub(crate) at_a_time: Option<usize>,
    pub(crate) cases: fn() -> Vec<Case>,
}

/// A case: its name, which begins with its number, and the case itself.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Outcome,
}

/// Makes a [`Case`] of an async function, with the seconds that it may take.
macro_rules! case {
    ($name:literal, $case:path, $seconds:expr) => {
        $crate::level::Case {
            name: $name,
            run: || kit::trial::block_on(std::time::Duration::from_secs($seconds), $case()),
        }
    };
}
pub(crate) use case;

impl Level {
    fn trials(&self, ignored: bool) -> Vec<Trial> {
        let trial = |case: Case| {
            let run = move || completion((case.run)());
            Trial::ignorable_test(format!("{}::{}", self.name, case.name), run)
                .with_ignored_flag(ignored)
        };
        (self.cases)().into_iter().map(trial).collect()
    }

    /// Whether the command line asks for any of its cases.
    fn is_wanted(&self, arguments: &Arguments) -> bool {
        let hit = |name: &str, pattern: &String| {
            if arguments.exact { name == pattern } else { name.contains(pattern.as_str()) }
        };
        let wanted = |trial: &Trial| {
            arguments.filter.as_ref().is_none_or(|pattern| hit(trial.name(), pattern))
                && !arguments.skip.iter().any(|pattern| hit(trial.name(), pattern))
        };
        self.trials(false).iter().any(wanted)
    }

    /// As [`Level::run`], with its error said.
    fn exit_code(&self, arguments: &Arguments) -> ExitCode {
        self.run(arguments).unwrap_or_else(|failure| {
            say(&format!("{}: {failure:#}", self.name));
            ExitCode::FAILURE
        })
    }

    fn run(&self, arguments: &Arguments) -> Outcome<ExitCode> {
        if self.needs_root && !rustix::process::geteuid().is_root() {
            say(&format!(
                "{}: not run, because containers need root; as root `cargo mesh {}` runs it",
                self.name, self.name
            ));
            return Ok(libtest_mimic::run(arguments, self.trials(true)).exit_code());
        }
        say(&format!("{}: getting its parts", self.name));
        let parts = parts::see_to(self.parts)?;
        isolation::run(self.name, self.makes_cgroups, &parts)
    }
}

/// The command line. The alias `mesh` ends in `--`, so the one in `cargo mesh -- --list` would be
/// the second: everything after it would be a name.
fn arguments() -> Arguments {
    Arguments::from_iter(std::env::args_os().filter(|argument| argument != "--"))
}

/// From outside: lists the cases, or runs the levels that are asked for, all at once: they share
/// nothing, and each waits most of the time. The first failure is what the process ends with.
pub(crate) fn run_all(levels: &[Level]) -> ExitCode {
    let arguments = arguments();
    if arguments.list {
        let trials = levels.iter().flat_map(|level| level.trials(false)).collect();
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    let wanted: Vec<&Level> = levels.iter().filter(|level| level.is_wanted(&arguments)).collect();
    if wanted.is_empty() {
        say("no case has such a name; `cargo mesh --list` lists them");
        return ExitCode::FAILURE;
    }
    if let Err(failure) = seen::begin_table() {
        say(&format!("the table: {failure:#}"));
        return ExitCode::FAILURE;
    }
    let codes: Vec<ExitCode> = thread::scope(|scope| {
        let running: Vec<_> =
            wanted.iter().map(|level| scope.spawn(|| level.exit_code(&arguments))).collect();
        running.into_iter().map(|level| level.join().unwrap_or(ExitCode::FAILURE)).collect()
    });
    codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
}

/// In the namespaces of this level.
pub(crate) fn run_inside(levels: &[Level], name: &str) -> ExitCode {
    let Some(level) = levels.iter().find(|level| level.name == name) else {
        return ExitCode::FAILURE;
    };
    let arguments = arguments();
    let arguments =
        Arguments { test_threads: arguments.test_threads.or(level.at_a_time), ..arguments };
    let conclusion: Conclusion = libtest_mimic::run(&arguments, level.trials(false));
    if let Err(failure) = seen::end_table() {
        say(&format!("the table: {failure:#}"));
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
