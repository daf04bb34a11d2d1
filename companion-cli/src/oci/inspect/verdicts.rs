//! Which consumers can use a module, and why the others cannot.

use clap::ValueEnum;
use serde::Serialize;

use crate::module::analysis::Module;
use crate::module::verdict::{Obstacle, obstacles};

/// A program that loads modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Consumer {
    /// Istio's agent.
    Istio,
    /// Envoy Gateway's controller.
    #[strum(to_string = "Envoy Gateway")]
    EnvoyGateway,
    /// A plain Envoy, with the module as a file or over HTTP.
    Envoy,
}

/// Whether a consumer can use a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Usability {
    /// The consumer can use it.
    Ok,
    /// The consumer can use it only with a later Envoy than the oldest that is supported.
    OnlyLater,
    /// The consumer cannot use it.
    No,
}

/// The answer for one consumer, with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The consumer.
    pub consumer: Consumer,
    /// Whether the consumer can use the module.
    pub answer: Usability,
    /// The reasons against it, each as the end of “because …”.
    pub because: Vec<String>,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let because = self.because.join("; and ");
        match self.answer {
            Usability::Ok => write!(f, "{}: ok", self.consumer),
            Usability::OnlyLater if self.consumer == Consumer::Istio => {
                write!(
                    f,
                    "{}: only 1.31 and later, whose Envoy is 1.39, because {because}",
                    self.consumer
                )
            }
            Usability::OnlyLater => {
                write!(f, "{}: only with Envoy 1.39 and later, because {because}", self.consumer)
            }
            Usability::No => write!(f, "{}: no, because {because}", self.consumer),
        }
    }
}

pub(super) fn of_module(module: &Result<Module, String>) -> Vec<Verdict> {
    let obstacles = of_analysis(module);
    let consumers = Consumer::value_variants().iter();
    consumers.map(|consumer| verdict(*consumer, &obstacles)).collect()
}

/// The verdicts for an image. Only a plain Envoy does not depend on the image's layout.
pub(super) fn of_image(
    of_image: &[String],
    module: Option<&Result<Module, String>>,
) -> Vec<Verdict> {
    let of_module = match module {
        Some(module) => of_analysis(module),
        None => vec![Obstacle { because: "no module was found in it".to_owned(), until: None }],
    };
    let of_image =
        of_image.iter().map(|because| Obstacle { because: because.clone(), until: None });
    let has_no_place = module.is_none() && of_image.len() > 0; // the image's obstacles say why
    let with_image: Vec<_> =
        of_image.chain(of_module.iter().filter(|_| !has_no_place).cloned()).collect();
    let verdict_of = |&consumer: &Consumer| {
        verdict(consumer, if consumer == Consumer::Envoy { &of_module } else { &with_image })
    };
    Consumer::value_variants().iter().map(verdict_of).collect()
}

fn of_analysis(module: &Result<Module, String>) -> Vec<Obstacle> {
    match module {
        Ok(module) => obstacles(module),
        Err(what) => vec![Obstacle { because: format!("the module {what}"), until: None }],
    }
}

fn verdict(consumer: Consumer, obstacles: &[Obstacle]) -> Verdict {
    let answer = match obstacles {
        [] => Usability::Ok,
        some if some.iter().all(|obstacle| obstacle.until.is_some()) => Usability::OnlyLater,
        _ => Usability::No,
    };
    Verdict {
        consumer,
        answer,
        because: obstacles.iter().map(|obstacle| obstacle.because.clone()).collect(),
    }
}
