//! A linter: the engine with the rules and facts of its caller.

use std::collections::HashSet;

use crate::program::Program;
use crate::rules::{GROUPS, change, files, schema, sections, upgrade, words};
use crate::upgrade::Step;
use crate::words::Words;
use crate::{
    Assume, Check, Checks, Finding, Findings, Group, Inputs, Rule, Severity, SourceError,
    SourceFile,
};

/// What a caller hands in.
#[derive(Debug)]
pub struct Facts {
    /// The name of the program. Comments that ignore findings begin with it: `# NAME-lint:`.
    pub program: &'static str,
    pub version: &'static str,
    /// The caller's rules.
    pub groups: &'static [Group],
    /// The changes of other programs that the caller's rules judge. Their texts are in a group.
    pub changes: &'static [upgrade::Change],
    /// The rules that say that something could not be read, beside the engine's.
    pub unread: &'static [&'static str],
    /// Annotations whose text is YAML or JSON, beside Istio's.
    pub annotations: &'static [&'static str],
    /// The words of the program's files, one a line.
    pub words: &'static str,
}

/// The rules, with the facts that they are made of.
#[derive(Debug)]
pub struct Linter {
    pub facts: Facts,
    pub program: Program,
    rules: Vec<Rule>,
}

impl Linter {
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        let checks: Vec<(&str, Check)> = checks(&facts).collect();
        let texts = groups(&facts).map(|(texts, _)| *texts);
        let rules = sections::rules(facts.program, texts, &checks);
        let has_text = |code: &str| rules.iter().any(|rule| rule.code == code);
        debug_assert!(checks.iter().all(|(code, _)| has_text(code)), "a check without a section");
        let program = Program {
            name: facts.program,
            annotations: facts.annotations,
            words: Words::of(facts.words),
            codes: rules.iter().map(|rule| rule.code).collect(),
        };
        Self { facts, program, rules }
    }

    /// All findings in files.
    ///
    /// # Errors
    /// The files hold more values than allowed.
    pub fn lint(
        &'static self,
        sources: Vec<SourceFile>,
        assume: Assume,
    ) -> Result<Vec<Finding>, SourceError> {
        let inputs = Inputs::read(&self.program, sources, assume)?;
        Ok(self.judged(&inputs, self.usual()))
    }

    /// The findings of these rules, or of those about an upgrade.
    pub fn judged(
        &'static self,
        inputs: &Inputs,
        usual: impl Iterator<Item = &'static Rule>,
    ) -> Vec<Finding> {
        match inputs.assume.upgrade.as_slice() {
            [] => self.findings_of(inputs, usual),
            steps => self.findings_of(inputs, self.of_upgrades(steps)),
        }
    }

    pub(crate) fn findings_of(
        &'static self,
        inputs: &Inputs,
        rules: impl Iterator<Item = &'static Rule>,
    ) -> Vec<Finding> {
        let (mut findings, mut skipped) = (Vec::new(), Vec::new());
        for rule in rules.filter(|rule| !inputs.assume.ignored.contains(&rule.code)) {
            let mut of_rule = Findings::new(rule, inputs);
            rule.checks.iter().for_each(|check| check(inputs, &mut of_rule));
            findings.append(&mut of_rule.list);
            skipped.append(&mut of_rule.skipped);
        }
        let of_skipped = self.rules().find(|rule| rule.code == files::FILLED_IN);
        findings.extend(of_skipped.and_then(|rule| files::filled_in_later(rule, inputs, skipped)));
        crate::ignore::apply(inputs, &mut findings);
        leave_out_explained(&mut findings);
        findings.sort_by(|one, two| key(one).cmp(&key(two)));
        findings.dedup_by(|one, two| key(one) == key(two));
        findings
    }

    /// All rules, in the order of their codes.
    pub fn rules(&'static self) -> impl Iterator<Item = &'static Rule> {
        self.rules.iter()
    }

    fn changes(&self) -> impl Iterator<Item = &upgrade::Change> {
        upgrade::CHANGES.iter().chain(self.facts.changes)
    }

    /// All rules, without those about upgrades.
    pub fn usual(&'static self) -> impl Iterator<Item = &'static Rule> {
        self.rules().filter(|rule| !self.changes().any(|(code, ..)| *code == rule.code))
    }

    fn hides_objects(&self, rule: &Rule) -> bool {
        files::hides_objects(rule) || self.facts.unread.contains(&rule.code)
    }

    /// The rules about what could not be read.
    pub fn of_unread(&'static self) -> impl Iterator<Item = &'static Rule> {
        self.rules().filter(|rule| self.hides_objects(rule))
    }

    /// The rules about a change, and those about files that cannot be read: without their objects
    /// a change looks smaller than it is.
    pub(crate) fn of_changes(&'static self) -> impl Iterator<Item = &'static Rule> {
        self.rules().filter(|rule| files::hides_objects(rule) || is_of(change::CHECKS, rule))
    }

    /// The rules about these steps, and those about what could not be read.
    fn of_upgrades(&'static self, steps: &[Step]) -> impl Iterator<Item = &'static Rule> {
        let is_covered = |rule: &Rule| {
            let mut rows = self.changes().filter(|(code, ..)| *code == rule.code);
            rows.any(|(_, program, since, _)| steps.iter().any(|step| step.covers(program, *since)))
        };
        self.rules().filter(move |rule| self.hides_objects(rule) || is_covered(rule))
    }

    /// The rules about the objects of a cluster. Its API server has judged each by its CRD, and has
    /// written the text itself.
    pub fn of_clusters(&'static self) -> impl Iterator<Item = &'static Rule> {
        self.usual().filter(|rule| {
            let is_of_text =
                is_of_words(rule) || is_of(files::CHECKS, rule) && !files::hides_objects(rule);
            !is_of_text && !is_of(schema::CHECKS, rule)
        })
    }
}

fn groups(facts: &Facts) -> impl Iterator<Item = &'static Group> {
    GROUPS.iter().chain(facts.groups)
}

/// All checks, each with the code of its rule.
fn checks(facts: &Facts) -> impl Iterator<Item = (&'static str, Check)> {
    let changes = upgrade::CHANGES.iter().chain(facts.changes);
    let changes = changes.map(|(code, .., check)| (*code, *check));
    groups(facts).flat_map(|(_, checks)| *checks).copied().chain(changes)
}

fn is_of(group: Checks, rule: &Rule) -> bool {
    group.iter().any(|(code, _)| *code == rule.code)
}

/// Whether a rule reports misspelt words.
fn is_of_words(rule: &Rule) -> bool {
    is_of(words::CHECKS, rule)
}

/// The order of findings. Two with the same key are one.
fn key(finding: &Finding) -> ((u32, u32, u32), &str, &str) {
    (place(finding), finding.rule.code, finding.message.as_str())
}

fn place(finding: &Finding) -> (u32, u32, u32) {
    (finding.source, finding.line, finding.column)
}

/// Removes the schema's verdict where an error of another rule explains the problem, and misspelt
/// words that any other rule reports. A warning removes no verdict, because it does not say that
/// the API server refuses the object.
fn leave_out_explained(findings: &mut Vec<Finding>) {
    let places = findings.iter().filter(|finding| !is_of_words(finding.rule));
    let places: HashSet<_> = places.map(place).collect();
    findings.retain(|finding| !is_of_words(finding.rule) || !places.contains(&place(finding)));
    let is_of_schema = |finding: &Finding| is_of(schema::CHECKS, finding.rule);
    let explains =
        |finding: &&Finding| finding.rule.severity == Severity::Error && !is_of_schema(finding);
    let explained: HashSet<_> = findings.iter().filter(explains).map(place).collect();
    findings.retain(|finding| !is_of_schema(finding) || !explained.contains(&place(finding)));
}
