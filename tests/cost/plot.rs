//! The plot: a bar for each variant, as long as its cost, and the targets. One SVG without other
//! files, for light and dark themes.

use std::fmt::Write as _;

use crate::instructions::Row;
use crate::targets::Target;

const WIDTH: f64 = 860.0;
/// The x coordinates at which bars begin, and at which the longest ends.
const LEFT: f64 = 330.0;
const RIGHT: f64 = 760.0;
const TOP: f64 = 64.0;
const ROW: f64 = 30.0;
const BAR: f64 = 16.0;

const STYLE: &str = "\
    text { font: 13px system-ui, sans-serif; fill: #1d2329 } .soft { fill: #5b6670 } .title { \
    font-size: 15px; font-weight: 600 } \
    .bar { fill: #2f7fc1 } .lua { fill: #8fa0ad } .line { stroke: #dcdfe2 } .must { stroke: \
    #c2352b } .aim { stroke: #1a7f4b } \
    .must, .aim { stroke-width: 2 } .number { font-variant-numeric: tabular-nums } \
    @media (prefers-color-scheme: dark) { text { fill: #e6e9ec } .soft { fill: #9aa6b0 } .bar { \
    fill: #5aa7e6 } .lua { fill: #6d7d89 } \
    .line { stroke: #333c44 } .must { stroke: #ff7b6f } .aim { stroke: #4cc38a } }";

/// Instructions per request over no filter, on an Envoy of this version.
pub(crate) fn instructions(rows: &[Row], targets: &[Target], envoy: &str) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.over.middle != 0.0).collect();
    let scale = Scale::of(&rows);
    let bottom = TOP + ROW * rows.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" \
         aria-label=\"Instructions per request over no filter\">\n<style>{STYLE}</style>\n\
         <text x=\"12\" y=\"24\" class=\"title\">Instructions per request, over no filter</text>\n\
         <text x=\"12\" y=\"44\" class=\"soft\">Envoy {envoy}, one worker, callgrind; less is \
         better</text>\n",
        bottom + 34.0
    );
    for tick in scale.ticks() {
        let x = scale.at(tick);
        svg += &line(x, TOP, bottom, "line");
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" class=\"soft \
                number\">{:.0}k</text>",
            bottom + 18.0,
            tick / 1000.0
        );
    }
    let targets = Targets::of(targets, &rows);
    for (index, row) in rows.iter().enumerate() {
        bar(&mut svg, row, targets.of_row(row), TOP + ROW * index as f64, scale);
    }
    if !targets.0.is_empty() {
        svg.push_str(&key(620.0, "must"));
        svg.push_str(&key(690.0, "aim"));
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(svg: &mut String, row: &Row, targets: Option<(f64, f64)>, top: f64, scale: Scale) {
    let (middle, end) = (top + ROW / 2.0 + 4.5, scale.at(row.over.middle.max(0.0)));
    let class = if row.name.starts_with("lua") { "lua" } else { "bar" };
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>",
        LEFT - 10.0,
        escape(&row.title)
    );
    let (y, width) = (top + (ROW - BAR) / 2.0, end - LEFT);
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\" \
            class=\"{class}\"/>"
    );
    let mut free = end;
    for (class, at) in targets.into_iter().flat_map(|(must, aim)| [("must", must), ("aim", aim)]) {
        let x = scale.at(at);
        *svg += &line(x, top + 3.0, top + ROW - 3.0, class);
        free = free.max(x);
    }
    let number = row.over.middle / 1000.0;
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{middle}\" class=\"number\">{number:.1}k</text>",
        free + 8.0
    );
}

/// A vertical line.
fn line(x: f64, top: f64, bottom: f64, class: &str) -> String {
    format!("<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\" class=\"{class}\"/>\n")
}

/// The entry of a mark in the key.
fn key(x: f64, word: &str) -> String {
    let text = x + 7.0;
    format!(
        "<line x1=\"{x}\" y1=\"33\" x2=\"{x}\" y2=\"47\" class=\"{word}\"/>\n\
         <text x=\"{text}\" y=\"44\" class=\"soft\">{word}</text>\n"
    )
}

/// For each variant, the instructions that it must not exceed, and those that it should not exceed.
struct Targets<'a>(Vec<(&'a str, (f64, f64))>);

impl<'a> Targets<'a> {
    fn of(targets: &'a [Target], rows: &[&Row]) -> Self {
        let lua = |name: &str| {
            rows.iter()
                .find(|row| row.name == name)
                .and_then(|row| Some(row.over.middle / row.lua?))
        };
        let multiples = targets.iter().filter(|target| target.unit.starts_with('×'));
        let marks = |target: &'a Target| {
            let lua = lua(&target.variant)?;
            Some((target.variant.as_str(), (target.must * lua, target.aim * lua)))
        };
        Self(multiples.filter_map(marks).collect())
    }

    fn of_row(&self, row: &Row) -> Option<(f64, f64)> {
        self.0.iter().find(|(variant, _)| *variant == row.name).map(|(_, marks)| *marks)
    }
}

/// Converts instructions to x coordinates.
#[derive(Clone, Copy)]
struct Scale {
    end: f64,
}

impl Scale {
    fn of(rows: &[&Row]) -> Self {
        Self { end: rows.iter().map(|row| row.over.middle).fold(1000.0, f64::max) }
    }

    fn at(self, instructions: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * instructions / self.end
    }

    /// Up to seven ticks.
    fn ticks(self) -> impl Iterator<Item = f64> {
        let step = [1e3, 2e3, 5e3, 10e3, 20e3, 50e3]
            .into_iter()
            .find(|step| self.end / step < 7.0)
            .unwrap_or(100e3);
        (0..).map(move |index| f64::from(index) * step).take_while(move |tick| *tick <= self.end)
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
