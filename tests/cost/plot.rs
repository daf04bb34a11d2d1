//! The plot: a bar for each variant, as long as it is dear, and where the targets are. One SVG that needs nothing else, light and dark.

use std::fmt::Write as _;

use crate::instructions::Row;
use crate::results::Results;
use crate::variants::{LUA_EQUAL, PROTO_CHANGED};

const WIDTH: f64 = 860.0;
/// Where the bars begin, and where the longest ends.
const LEFT: f64 = 330.0;
const RIGHT: f64 = 760.0;
const TOP: f64 = 64.0;
const ROW: f64 = 30.0;
const BAR: f64 = 16.0;

const STYLE: &str = "\
    text { font: 13px system-ui, sans-serif; fill: #1d2329 } .soft { fill: #5b6670 } .title { font-size: 15px; font-weight: 600 } \
    .bar { fill: #2f7fc1 } .lua { fill: #8fa0ad } .line { stroke: #dcdfe2 } .must { stroke: #c2352b } .aim { stroke: #1a7f4b } \
    .must, .aim { stroke-width: 2 } .number { font-variant-numeric: tabular-nums } \
    @media (prefers-color-scheme: dark) { text { fill: #e6e9ec } .soft { fill: #9aa6b0 } .bar { fill: #5aa7e6 } .lua { fill: #6d7d89 } \
    .line { stroke: #333c44 } .must { stroke: #ff7b6f } .aim { stroke: #4cc38a } }";

/// Instructions per request over no filter.
pub(crate) fn instructions(results: &Results) -> String {
    let rows: Vec<&Row> = results.instructions.iter().filter(|row| row.over.middle != 0.0).collect();
    let scale = Scale::of(&rows);
    let bottom = TOP + ROW * rows.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Instructions per request over no filter\">\n\
         <style>{STYLE}</style>\n<text x=\"12\" y=\"24\" class=\"title\">Instructions per request, over no filter</text>\n\
         <text x=\"12\" y=\"44\" class=\"soft\">Envoy {}, one worker, callgrind; less is better</text>\n",
        bottom + 34.0,
        results.machine.envoy
    );
    for tick in scale.ticks() {
        let x = scale.at(tick);
        let _ = writeln!(svg, "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" class=\"line\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" class=\"soft number\">{:.0}k</text>",
            bottom + 18.0,
            tick / 1000.0
        );
    }
    for (index, row) in rows.iter().enumerate() {
        bar(&mut svg, row, TOP + ROW * index as f64, scale);
    }
    marks(&mut svg, results, &rows, scale);
    svg.push_str("</svg>\n");
    svg
}

fn bar(svg: &mut String, row: &Row, top: f64, scale: Scale) {
    let (middle, end) = (top + ROW / 2.0 + 4.5, scale.at(row.over.middle.max(0.0)));
    let class = if row.name.starts_with("lua") { "lua" } else { "bar" };
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>", LEFT - 10.0, escape(&row.title));
    let (y, width) = (top + (ROW - BAR) / 2.0, end - LEFT);
    let _ = writeln!(svg, "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\" class=\"{class}\"/>");
    let number = row.over.middle / 1000.0;
    let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{middle}\" class=\"number\">{number:.1}k</text>", end + 8.0);
}

/// Where the targets are that are multiples of the Lua's.
fn marks(svg: &mut String, results: &Results, rows: &[&Row], scale: Scale) {
    let Some(lua) = rows.iter().find(|row| row.name == LUA_EQUAL).map(|row| row.over.middle) else { return };
    // Of several targets for one variant the first is the one for what is rendered.
    let of = |row: &&Row| results.targets.iter().find(|target| target.variant == row.name && target.unit.starts_with('×'));
    for (index, row) in rows.iter().enumerate() {
        let Some(target) = of(row) else { continue };
        let (top, bottom) = (TOP + ROW * index as f64 + 3.0, TOP + ROW * (index + 1) as f64 - 3.0);
        for (class, multiple) in [("must", target.must), ("aim", target.aim)] {
            let x = scale.at(multiple * lua);
            let _ = writeln!(svg, "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\" class=\"{class}\"/>");
        }
    }
    if results.targets.iter().any(|target| target.variant == PROTO_CHANGED) {
        let key = |x: f64, class: &str, word: &str| {
            format!(
                "<line x1=\"{x}\" y1=\"33\" x2=\"{x}\" y2=\"47\" class=\"{class}\"/>\n<text x=\"{}\" y=\"44\" class=\"soft\">{word}</text>\n",
                x + 7.0
            )
        };
        svg.push_str(&key(620.0, "must", "must"));
        svg.push_str(&key(690.0, "aim", "aim"));
    }
}

/// Instructions to places.
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

    /// About six of them.
    fn ticks(self) -> impl Iterator<Item = f64> {
        let step = [1e3, 2e3, 5e3, 10e3, 20e3, 50e3].into_iter().find(|step| self.end / step < 7.0).unwrap_or(100e3);
        (0..).map(move |index| f64::from(index) * step).take_while(move |tick| *tick <= self.end)
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
