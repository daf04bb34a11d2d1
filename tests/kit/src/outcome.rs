//! The failure of a test: an [`Error`] that gathers context, and macros that add the line of the
//! test. With [`MachineLacks`], the trial is ignored instead.

use std::fmt::{self, Display, Formatter};

use anyhow::Error;
use libtest_mimic::{Completion, Failed};

pub type Outcome<T = ()> = Result<T, Error>;

/// The trial needs what this machine lacks, such as a program that cannot be fetched, or a network:
/// the reason, and the fix.
#[derive(Debug)]
pub struct MachineLacks(pub String);

impl Display for MachineLacks {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for MachineLacks {}

/// Converts an outcome for libtest-mimic. A trial is ignored if it needs what the machine lacks.
pub fn completion(outcome: Outcome) -> Result<Completion, Failed> {
    match outcome {
        Ok(()) => Ok(Completion::Completed),
        Err(error) if error.is::<MachineLacks>() => {
            Ok(Completion::ignored_with(format!("{error:#}")))
        }
        Err(error) => Err(Failed::from(format!("{error:#}"))),
    }
}

/// Ends the function with an error that names the line.
#[macro_export]
macro_rules! bail {
    ($($message:tt)*) => {
        return Err($crate::Error::msg(format!(
            "{} ({}:{})", format_args!($($message)*), file!(), line!()
        )))
    };
}

/// `ensure!(count == 3, "count is {count}")`
#[macro_export]
macro_rules! ensure {
    ($condition:expr $(,)?) => {
        $crate::ensure!($condition, "not true: {}", stringify!($condition))
    };
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            $crate::bail!($($message)*);
        }
    };
}

/// `ensure_eq!(seen, expected, "status of the held request")`
#[macro_export]
macro_rules! ensure_eq {
    ($seen:expr, $expected:expr, $($message:tt)*) => {
        match (&$seen, &$expected) {
            (seen, expected) => $crate::ensure!(
                *seen == *expected,
                "{}: expected {expected:?}, saw {seen:?}", format_args!($($message)*)
            ),
        }
    };
}
