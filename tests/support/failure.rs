//! What a trial fails with: a sentence, made from any error, with the context added on the way up.

use std::fmt::{self, Display, Formatter};

use libtest_mimic::{Completion, Failed};

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Deliberately no `std::error::Error`: that lets `?` turn every error into one of these.
pub(crate) struct Failure {
    message: String,
    /// The machine lacks a program, and it cannot be had: the trial is ignored.
    is_missing_program: bool,
}

impl Failure {
    pub(crate) fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), is_missing_program: false }
    }

    /// With the reason why the program cannot be had, and the way out.
    pub(crate) fn missing_program(reason: impl Display) -> Self {
        Self { message: reason.to_string(), is_missing_program: true }
    }

    /// The same, with more to read after it.
    pub(crate) fn with_note(self, note: impl Display) -> Self {
        Self { message: format!("{}{note}", self.message), ..self }
    }
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Self::new(message)
    }
}

/// What libtest-mimic takes: a trial is ignored where a program that it needs cannot be had.
pub(crate) fn completion(outcome: Outcome) -> Result<Completion, Failed> {
    match outcome {
        Ok(()) => Ok(Completion::Completed),
        Err(failure) if failure.is_missing_program => Ok(Completion::ignored_with(failure)),
        Err(failure) => Err(Failed::from(failure)),
    }
}

/// `result.context("reading the file")?`, also for `Option`.
pub(crate) trait Context<T> {
    fn context(self, what: impl Display) -> Outcome<T>;
    fn with_context<D: Display>(self, what: impl FnOnce() -> D) -> Outcome<T>;
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Outcome<T> {
        self.with_context(|| what)
    }

    fn with_context<D: Display>(self, what: impl FnOnce() -> D) -> Outcome<T> {
        self.map_err(|error| {
            let failure = error.into();
            Failure { message: format!("{}: {}", what(), failure.message), ..failure }
        })
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl Display) -> Outcome<T> {
        self.with_context(|| what)
    }

    fn with_context<D: Display>(self, what: impl FnOnce() -> D) -> Outcome<T> {
        self.ok_or_else(|| Failure::new(what()))
    }
}

/// Ends the function with a failure that says where.
macro_rules! fail {
    ($($message:tt)*) => {
        return Err($crate::support::failure::Failure::new(format!("{} \
            ({}:{})", format_args!($($message)*), file!(), line!())))
    };
}

/// `ensure!(count == 3, "count is {count}")`
macro_rules! ensure {
    ($condition:expr $(,)?) => {
        $crate::support::failure::ensure!($condition, "not so: {}", stringify!($condition))
    };
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            $crate::support::failure::fail!($($message)*);
        }
    };
}

/// `ensure_eq!(seen, expected, "status of the held request")`
macro_rules! ensure_eq {
    ($seen:expr, $expected:expr, $($message:tt)*) => {
        match (&$seen, &$expected) {
            (seen, expected) => {
                if *seen != *expected {
                    $crate::support::failure::fail!("{}: expected {:?}, saw \
                        {:?}", format_args!($($message)*), expected, seen);
                }
            }
        }
    };
}

pub(crate) use {ensure, ensure_eq, fail};
