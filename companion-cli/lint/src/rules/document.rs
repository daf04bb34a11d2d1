//! The texts of the rules. They stand once, in LINT.md, where users read them: a section for each
//! rule, with its code, title, severity, consequence and fix.

use std::sync::LazyLock;

use super::checks;
use crate::finding::Rule;

/// The document with each paragraph as one line.
static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| with_joined_lines(include_str!("../../../LINT.md")));

fn with_joined_lines(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// All rules, in the order of their codes.
pub(crate) fn rules() -> impl Iterator<Item = &'static Rule> {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| sections().filter_map(read).collect());
    RULES.iter()
}

fn sections() -> impl Iterator<Item = &'static str> {
    DOCUMENT.split("\n## ").skip(1)
}

/// Reads a section. A test holds that each has this form, and that each check has a section.
fn read(section: &'static str) -> Option<Rule> {
    let (code, rest) = section.split_once("\n\n**")?;
    let (title, rest) = rest.split_once("** (")?;
    let (severity, rest) = rest.split_once("). ")?;
    let (why, fix) = rest.split_once("\n\n*Fix:* ")?;
    let checks: Vec<_> = checks().filter(|(own, _)| *own == code).map(|(_, check)| check).collect();
    let severity = severity.parse().ok()?;
    (!checks.is_empty()).then_some(Rule { code, severity, title, why, fix: fix.trim_end(), checks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_one_line_however_it_is_wrapped() {
        let wrapped = "LS001\n\n**a\ntitle** (error). One\ntwo.\n\n*Fix:* Three\nfour.\n";
        let Rule { title, why, fix, .. } = read(with_joined_lines(wrapped).leak()).expect("a rule");
        assert_eq!((title, why, fix), ("a title", "One two.", "Three four."));
    }

    #[test]
    fn each_check_has_a_section_and_each_section_a_check() {
        let mut codes: Vec<&str> = checks().map(|(code, _)| code).collect();
        codes.sort_unstable();
        let read: Vec<&str> = rules().map(|rule| rule.code).collect();
        codes.dedup();
        assert_eq!(read, codes);
        assert_eq!(sections().count(), codes.len());
        for rule in rules() {
            let Rule { title, why, fix, .. } = rule;
            assert!([title, why, fix].iter().all(|text| !text.contains('\n')), "{rule:?}");
            assert!(!title.is_empty() && !title.ends_with('.') && why.ends_with('.'), "{rule:?}");
            assert!(fix.ends_with(['.', ')']), "{rule:?}");
            let is_sourced = fix.contains("(https://");
            assert!(is_sourced || rule.code < "LS901", "{} has no source", rule.code);
        }
    }
}
