//! From the written configuration to the checked one. Finds every problem before it reports any.

mod end;
mod forwarded_proto;
mod gate;

use super::checked::Config;
use super::error::{Problem, Refused};
use super::wire::{Configuration, Count, HeaderMatch, TextMatch};
use crate::forwarded::is_token;
use crate::stream::rules::Rule;
use crate::text::Text;

pub(super) fn check(mut wire: Configuration) -> Result<Config, Refused> {
    let mut checker = Checker(Vec::new());
    let gate = checker.gate(&mut wire);
    let (exclude, long_lived) =
        wire.count.as_ref().map_or_else(Default::default, |count| checker.count(count));
    let kinds = wire.count.as_ref().is_some_and(|count| count.kinds);
    let ages = wire.count.as_ref().is_some_and(|count| count.ages);
    let forwarded_proto = wire.forwarded_proto.as_ref().map(|wire| checker.forwarded_proto(wire));
    if checker.0.is_empty() {
        let Configuration { role, scope, .. } = wire;
        Ok(Config { role, scope, exclude, long_lived, ages, kinds, forwarded_proto, gate })
    } else {
        Err(Refused(checker.0))
    }
}

/// Collects problems. Invalid values are left out of the result, which is then not used.
struct Checker(Vec<Problem>);

impl Checker {
    fn add_problem(&mut self, path: &str, message: &str) {
        self.0.push(Problem::new(path, message));
    }

    fn count(&mut self, wire: &Count) -> (Vec<Rule>, Vec<Rule>) {
        let Count { exclude, long_lived, ages: _, kinds: _ } = wire;
        let mut excluded = Vec::new();
        self.texts("count.exclude.paths", &exclude.paths, wrong_path, &mut |text| {
            excluded.push(Rule::Path(text))
        });
        self.headers("count.exclude.headers", &exclude.headers, &mut excluded);
        add(&mut excluded, exclude.health_checks, Rule::HealthCheck);
        let mut long = Vec::new();
        self.texts("count.long_lived.paths", &long_lived.paths, wrong_path, &mut |text| {
            long.push(Rule::Path(text))
        });
        self.headers("count.long_lived.headers", &long_lived.headers, &mut long);
        add(&mut long, long_lived.upgrades, Rule::Upgrade);
        add(&mut long, long_lived.grpc, Rule::Grpc);
        add(&mut long, long_lived.event_streams, Rule::EventStream);
        self.texts("count.long_lived.routes", &long_lived.routes, |_| None, &mut |text| {
            long.push(Rule::Route(text))
        });
        (excluded, long)
    }

    fn headers(&mut self, path: &str, wire: &[HeaderMatch], rules: &mut Vec<Rule>) {
        for (index, header) in wire.iter().enumerate() {
            let path = item(path, index);
            let name = self.header_name(&path, "name", &header.name);
            if name == "host" {
                self.add_problem(&format!("{path}.name"), HOST);
            }
            let text = match (&header.exact, &header.prefix) {
                (Some(_), Some(_)) => {
                    self.add_problem(&path, "has both `exact` and `prefix`: keep one");
                    None
                }
                (Some(text), None) | (None, Some(text)) if text.is_empty() => {
                    self.add_problem(&path, EMPTY);
                    None
                }
                (Some(text), None) => Some(Text::Exact(text.clone())),
                (None, text) => text.clone().map(Text::Prefix),
            };
            rules.push(Rule::Header(name, text));
        }
    }

    /// `wrong` returns a further problem, which only texts of this kind can have.
    fn texts(
        &mut self,
        path: &str,
        wire: &[TextMatch],
        wrong: fn(&Text) -> Option<String>,
        take: &mut dyn FnMut(Text),
    ) {
        for (index, wire) in wire.iter().enumerate() {
            let text = match (&wire.exact, &wire.prefix) {
                (Some(_), Some(_)) => Err("has both `exact` and `prefix`: keep one"),
                (None, None) => Err("has neither `exact` nor `prefix`: add one"),
                (Some(text), None) | (None, Some(text)) if text.is_empty() => Err(EMPTY),
                (Some(text), None) => Ok(Text::Exact(text.clone())),
                (None, Some(text)) => Ok(Text::Prefix(text.clone())),
            };
            match text {
                Err(message) => self.add_problem(&item(path, index), message),
                Ok(text) => match wrong(&text) {
                    Some(message) => self.add_problem(&item(path, index), &message),
                    None => take(text),
                },
            }
        }
    }

    /// Envoy keeps names in lower case. A name that no request can have is a mistake.
    fn header_name(&mut self, path: &str, field: &str, name: &str) -> String {
        if name.is_empty() || !name.bytes().all(is_token) {
            self.add_problem(
                &format!("{path}.{field}"),
                &format!("`{name}` is not the name of a header"),
            );
        }
        name.to_ascii_lowercase()
    }
}

const EMPTY: &str = "is an empty text: take it out, or write what is to match";

const HOST: &str = "`host` never matches, because Envoy has no such header: it keeps the host as \
    `:authority`, which no rule compares. Name paths, or another header";

fn add(rules: &mut Vec<Rule>, wanted: bool, rule: Rule) {
    if wanted {
        rules.push(rule);
    }
}

fn wrong_path(text: &Text) -> Option<String> {
    let (Text::Exact(path) | Text::Prefix(path)) = text;
    if !path.starts_with('/') {
        Some(format!("`{path}` never matches: a path begins with `/`"))
    } else if path.contains(['?', '#']) {
        Some(format!("`{path}` never matches: paths are compared without their query"))
    } else if *text == Text::Prefix("/".into()) {
        Some("`/` begins every path: write a longer prefix, or `exact` for `/` itself".into())
    } else {
        None
    }
}

fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}
