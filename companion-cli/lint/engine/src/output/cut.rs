//! The streams that a change would cut now, as a table in Markdown and as a sentence.

use std::fmt::Write as _;

use crate::change::CutStreams;

/// A table that a comment on a pull request can hold.
pub fn cut(rows: &[CutStreams]) -> String {
    let mut out = String::from(
        "| proxies | pods | streams now | older than the drain time | not listed | drain time | \
         not known |\n|---|--:|--:|--:|--:|--:|---|\n",
    );
    for row in rows {
        let unknown = row.unknown.iter().map(|(why, pods)| {
            let many = if *pods == 1 { "" } else { "s" };
            format!("{pods} pod{many}: {}", why.replace(['|', '\n'], " "))
        });
        let unknown = unknown.collect::<Vec<_>>().join("; ");
        let CutStreams { workload, pods, streams, older, unlisted, drain_seconds, .. } = row;
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "| {workload} | {pods} | {streams} | {older} | {unlisted} | {drain_seconds} s | \
             {unknown} |"
        );
    }
    out
}

/// The sums. They are lower bounds if a pod's streams are not known.
pub fn cut_summary(rows: &[CutStreams]) -> String {
    let sum = |of: fn(&CutStreams) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let pods = sum(|row| row.pods);
    let streams = sum(|row| row.streams);
    let older = sum(|row| row.older);
    let unlisted = sum(|row| row.unlisted);
    let is_sure = unlisted == 0 && rows.iter().all(|row| row.unknown.is_empty());
    let least = if is_sure { "" } else { "at least " };
    format!(
        "now: {least}{streams} streams in {pods} pods whose listeners the change replaces, \
         {least}{older} of them older than the drain time"
    )
}
