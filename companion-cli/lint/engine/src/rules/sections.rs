//! The texts of the rules. They stand once, beside the checks of their group: a section for each
//! rule, with its code, title, severity, consequence and fix.

use crate::{Check, Rule};

/// A text with each paragraph as one line.
fn with_joined_lines(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// All rules, in the order of their codes. A program has one linter, so the texts are kept.
pub(crate) fn rules<'t>(
    program: &str,
    texts: impl Iterator<Item = &'t str>,
    checks: &[(&str, Check)],
) -> Vec<Rule> {
    let text = texts.fold(String::from("\n"), |all, text| all + "\n" + text);
    let text = with_joined_lines(&text.replace("{program}", program)).leak();
    let sections = text.split("\n## ").skip(1);
    let mut rules: Vec<_> = sections.filter_map(|section| read(section, checks)).collect();
    rules.sort_unstable_by_key(|rule| rule.code);
    rules
}

/// Reads a section. A test holds that each has this form, and that each check has a section.
fn read(section: &'static str, checks: &[(&str, Check)]) -> Option<Rule> {
    let (code, rest) = section.split_once("\n\n**")?;
    let (title, rest) = rest.split_once("** (")?;
    let (severity, rest) = rest.split_once("). ")?;
    let (why, fix) = rest.split_once("\n\n*Fix:* ")?;
    let of_code = checks.iter().filter(|(own, _)| *own == code);
    let checks: Vec<_> = of_code.map(|(_, check)| *check).collect();
    let severity = severity.parse().ok()?;
    (!checks.is_empty()).then_some(Rule { code, severity, title, why, fix: fix.trim_end(), checks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_one_line_however_it_is_wrapped() {
        let wrapped = "## LS001\n\n**a\ntitle** (error). One\ntwo.\n\n*Fix:* Three\nfour.\n";
        let rules = rules("", [wrapped].into_iter(), &[("LS001", |_, _| {})]);
        let [Rule { title, why, fix, .. }] = &rules[..] else { panic!("one rule") };
        assert_eq!((*title, *why, *fix), ("a title", "One two.", "Three four."));
    }
}
