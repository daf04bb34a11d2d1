//! Examples: files that name the expected findings in their own comments.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use laststream_lint::upgrade::Step;
use laststream_lint::{Assume, Finding, SourceFile, lint};

/// The folders of the groups of rules, which hold their texts and examples.
pub(crate) fn groups() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("lint");
    let entries = ["engine/src/rules", "src/rules"].map(|rules| root.join(rules).read_dir());
    let entries = entries.into_iter().flat_map(|entries| entries.expect("a folder of rules"));
    let groups = entries.map(|entry| entry.expect("a readable folder").path());
    groups.filter(|path| path.is_dir()).collect()
}

/// A file or folder of examples, in a group of rules or in the folder of the tests.
pub(crate) fn folder(name: &str) -> PathBuf {
    let of_group = groups().into_iter().map(|group| group.join(name)).find(|path| path.exists());
    of_group.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint").join(name))
}

/// The examples of all rules, sorted.
pub(crate) fn of_rules() -> Vec<Example> {
    let paths = groups().into_iter().flat_map(|group| files(&group));
    let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    let mut examples: Vec<_> = paths.map(|path| Example::read(&path)).collect();
    examples.sort_by_key(|example| example.name.clone());
    examples
}

/// The manifests of a folder, sorted.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

/// An example and its expected findings: `finding: LS102 LS105` in a line is for that line,
/// `finding at 7: LS301` names another one, `istio: 1.29` and `kubernetes: 1.34` are the assumed
/// versions, `upgrade: istio=1.30:1.31` is a step that is judged.
pub(crate) struct Example {
    pub name: String,
    pub text: String,
}

impl Example {
    pub(crate) fn read(path: &Path) -> Self {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        Self { name, text: std::fs::read_to_string(path).expect("an example is text") }
    }

    /// The expected findings: line and code.
    pub(crate) fn expected(&self) -> Vec<(u32, String)> {
        let mut expected = Vec::new();
        for (number, line) in (1..).zip(self.text.lines()) {
            let (line_of, codes) = if let Some((_, rest)) = line.split_once("finding at ") {
                let (line, codes) = rest.split_once(':').expect("`finding at LINE: CODES`");
                (line.trim().parse().expect("a line"), codes)
            } else if let Some((_, codes)) = line.split_once("finding: ") {
                (number, codes)
            } else {
                continue;
            };
            let codes = codes.split_whitespace().take_while(|word| word.starts_with("LS"));
            expected.extend(codes.map(|code| (line_of, code.to_owned())));
        }
        expected.sort();
        expected
    }

    fn assume(&self) -> Assume {
        let version = |of: &str| {
            let text = self.text.lines().find_map(|line| line.strip_prefix(of))?;
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().unwrap(), minor.parse().unwrap()))
        };
        let (istio, kubernetes) = (version("# istio: "), version("# kubernetes: "));
        Assume { istio, kubernetes, ..Assume::default() }.with_upgrade(self.steps().collect())
    }

    /// The steps of an upgrade that are judged.
    pub(crate) fn steps(&self) -> impl Iterator<Item = Step> {
        let given = self.text.lines().filter_map(|line| line.strip_prefix("# upgrade: "));
        given.map(|step| step.parse().unwrap_or_else(|why| panic!("{}: {why}", self.name)))
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        lint(
            vec![SourceFile::new(self.name.clone(), self.text.clone().into_bytes())],
            self.assume(),
        )
        .unwrap()
    }

    /// The findings, in the form of [`Self::expected`].
    pub(crate) fn found(&self) -> Vec<(u32, String)> {
        let mut found: Vec<_> = self
            .findings()
            .iter()
            .map(|finding| (finding.line, finding.rule.code.to_owned()))
            .collect();
        found.sort();
        found
    }
}

/// Runs steps, which name each step before it begins. Fails if one does not end within ten minutes,
/// which is a hang and not a slow machine. All run on one thread, which keeps its compiled schemas.
pub(crate) fn or_hangs(steps: impl FnOnce(&dyn Fn(String)) + Send + 'static) {
    let (begins, begun) = channel();
    let steps = std::thread::spawn(move || {
        steps(&|name| begins.send(name).unwrap_or_default());
    });
    let mut name = String::new();
    loop {
        match begun.recv_timeout(Duration::from_secs(600)) {
            Ok(next) => name = next,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("{name} hangs"),
        }
    }
    steps.join().unwrap_or_else(|_| panic!("{name} fails"));
}

/// For messages of failed tests.
pub(crate) fn described(findings: &[Finding]) -> String {
    findings
        .iter()
        .map(|finding| {
            format!(
                "{}:{}:{} {} {}\n",
                finding.file, finding.line, finding.column, finding.rule.code, finding.message
            )
        })
        .collect()
}
