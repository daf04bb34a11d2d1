//! `x-forwarded-proto` is restored from the headers and ports of trusted peers, and from nothing
//! else.
//!
//! The expected results are Markdown tables for human readers under `forwarded_proto/`, a row for
//! each request; `README.md` there explains the columns. This module runs every row against a real
//! Envoy.

mod alike;
mod composite;
mod engines;
mod run;

use laststream_policy::file::Engine as Native;

use crate::lab::{Lab, cases};
use kit::{Outcome, ensure};

pub(super) use self::engines::FIRST_WITH_COMPOSITE;
use self::run::{Engine, Shown};
use kit::forwarded_proto::table::Table;

/// Minimum numbers of rows, so that a lost row is noticed.
const LEAST_ROWS: usize = 500;
const LEAST_ATTACKS: usize = 250;
const LEAST_NATIVE_ROWS: usize = 200;
/// Rows about destination ports, for which Envoy needs `forward_proto_config`.
const LEAST_NATIVE_ROWS_OF_DESTINATIONS: usize = 50;

cases! {
    rows_are_many_and_sound,
    every_row_holds,
    every_row_holds_by_envoys_own_matchers,
    every_row_holds_by_the_composite_filter,
    alike::all_engines_decide_alike,
    composite::an_older_envoy_ignores_the_matcher_or_refuses_it,
    composite::broken_chains_make_no_stranger_https,
}

/// Checks of the rows that need no Envoy. Reading the tables is itself the larger part of the
/// check.
async fn rows_are_many_and_sound(_: &Lab) -> Outcome {
    let table = Table::read()?;
    let rows: Vec<_> = table.sections.iter().flat_map(|section| &section.rows).collect();
    let attacks = rows.iter().filter(|row| row.is_attack).count();
    ensure!(rows.len() >= LEAST_ROWS, "{} rows, {LEAST_ROWS} are the least", rows.len());
    ensure!(attacks >= LEAST_ATTACKS, "{attacks} attacks, {LEAST_ATTACKS} are the least");
    let believed = table.untrusted_that_become_https();
    ensure!(
        believed.is_empty(),
        "no untrusted peer may become https on a plaintext connection, but these rows ask for it: \
            {believed:?}"
    );
    Ok(())
}

async fn every_row_holds(lab: &Lab) -> Outcome {
    holds(run::all(lab, &Table::read()?, Engine::Module).await?, LEAST_ROWS)
}

async fn every_row_holds_by_envoys_own_matchers(lab: &Lab) -> Outcome {
    let shown = run::all(lab, &Table::read()?, Engine::Envoy(Native::Native)).await?;
    let least = if lab.version < run::FIRST_WITH_DESTINATIONS {
        0
    } else {
        LEAST_NATIVE_ROWS_OF_DESTINATIONS
    };
    let rows = shown.rows_of_destinations;
    ensure!(rows >= least, "{rows} rows of destination ports, {least} are the least");
    holds(shown, LEAST_NATIVE_ROWS)
}

async fn every_row_holds_by_the_composite_filter(lab: &Lab) -> Outcome {
    let least = if lab.version < FIRST_WITH_COMPOSITE { 0 } else { LEAST_NATIVE_ROWS };
    holds(run::all(lab, &Table::read()?, Engine::Envoy(Native::Composite)).await?, least)
}

fn holds(Shown { mismatches, rows, .. }: Shown, least: usize) -> Outcome {
    ensure!(mismatches.is_empty(), "{} mismatches:\n{}", mismatches.len(), mismatches.join("\n"));
    ensure!(rows >= least, "{rows} rows, {least} are the least");
    Ok(())
}
