//! Levels of the mesh and their cases. The outermost process lists cases, or starts each level in
//! its namespaces; there the level runs its cases.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;
use std::{iter, thread};

use libtest_mimic::{Arguments, Conclusion, Trial};

use crate::parts::Parts;
use crate::{isolation, parts, seen};
use kit::{Outcome, completion, say};

/// Cases that share a world, which the first of them starts.
pub(crate) struct Level {
    /// The first part of its trials' names, so it also works as a filter on the command line.
    pub(crate) name: &'static str,
    pub(crate) needs_root: bool,
    /// Whether the level makes cgroups, which outlive its namespaces.
    pub(crate) makes_cgroups: bool,
    /// The programs and files that `tests/tools/program` must find or make.
    pub(crate) parts: &'static [&'static str],
    /// How many cases run at a time; without it, as many as the machine has processors.
    pub(crate) at_a_time: Option<usize>,
    pub(crate) cases: fn() -> Vec<Case>,
}

/// A case: its name, which begins with its number, and the case itself.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Outcome,
}

/// The time limit of a case, with its wait for others. Only a hang exceeds it, not a case on a slow
/// or busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(3_600);

/// Makes a [`Case`] of an async function.
macro_rules! case {
    ($name:literal, $case:path) => {
        $crate::level::Case {
            name: $name,
            run: || kit::trial::block_on($crate::level::LIMIT, $case()),
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

    /// Whether the command line selects any of the level's cases.
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

    /// Its parts, which may take minutes and a network; none if its cases cannot run here.
    fn parts(&self) -> Outcome<Option<Parts>> {
        if self.needs_root && !rustix::process::geteuid().is_root() {
            say(&format!(
                "{}: not run, because containers need root; as root `cargo mesh {}` runs it",
                self.name, self.name
            ));
            return Ok(None);
        }
        say(&format!("{}: getting its parts", self.name));
        parts::find_or_make(self.parts).map(Some)
    }

    /// Runs the cases with these parts; without parts they are ignored.
    fn run(&self, arguments: &Arguments, parts: Option<&Parts>) -> Outcome<ExitCode> {
        match parts {
            Some(parts) => isolation::run(self.name, self.makes_cgroups, parts),
            None => Ok(libtest_mimic::run(arguments, self.trials(true)).exit_code()),
        }
    }
}

/// A level with its parts.
type Prepared<'l> = (&'l Level, Outcome<Option<Parts>>);

/// The arguments of the command line without `--`. The alias `mesh` ends in `--`, so `cargo mesh --
/// --list` has a second one, after which every word would be a name.
fn arguments() -> Arguments {
    Arguments::from_iter(std::env::args_os().filter(|argument| argument != "--"))
}

/// How many levels run side by side. Most of the time they wait: for containers, pushes, drains.
const ROWS: usize = 3;

/// The outermost process: lists the cases, or runs the selected levels, [`ROWS`] of them at a time.
/// All parts are there before any level starts, so that no compiler delays a container.
pub(crate) fn run_all(levels: &[Level]) -> ExitCode {
    let arguments = arguments();
    if arguments.list {
        let trials = levels.iter().flat_map(|level| level.trials(false)).collect();
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    let wanted: Vec<_> = levels.iter().filter(|level| level.is_wanted(&arguments)).collect();
    if wanted.is_empty() {
        say("no case has such a name; `cargo mesh --list` lists them");
        return ExitCode::FAILURE;
    }
    if let Err(failure) = seen::begin_table() {
        say(&format!("the table: {failure:#}"));
        return ExitCode::FAILURE;
    }
    let prepared: Vec<Prepared<'_>> =
        wanted.into_iter().map(|level| (level, level.parts())).collect();
    let left = Mutex::new(prepared.into_iter());
    let row = || -> Vec<ExitCode> {
        let next = || left.lock().expect("no row panics while it takes a level").next();
        iter::from_fn(next).map(|prepared| run_one(prepared, &arguments)).collect()
    };
    let codes: Vec<ExitCode> = thread::scope(|scope| {
        let rows: Vec<_> = (0..ROWS).map(|_| scope.spawn(row)).collect();
        rows.into_iter().flat_map(|row| row.join().unwrap_or(vec![ExitCode::FAILURE])).collect()
    });
    codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
}

/// Runs a level. What fails is said here, because the other levels still run.
fn run_one((level, parts): Prepared<'_>, arguments: &Arguments) -> ExitCode {
    parts.and_then(|parts| level.run(arguments, parts.as_ref())).unwrap_or_else(|failure| {
        say(&format!("{}: {failure:#}", level.name));
        ExitCode::FAILURE
    })
}

/// The process that runs the cases, in the namespaces of this level.
pub(crate) fn run_inside(levels: &[Level], name: &str) -> ExitCode {
    let Some(level) = levels.iter().find(|level| level.name == name) else {
        return ExitCode::FAILURE;
    };
    let arguments = arguments();
    let arguments =
        Arguments { test_threads: arguments.test_threads.or(level.at_a_time), ..arguments };
    let conclusion: Conclusion = libtest_mimic::run(&arguments, level.trials(false));
    if let Err(failure) = seen::end_table(!conclusion.has_failed()) {
        say(&format!("the table: {failure:#}"));
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
