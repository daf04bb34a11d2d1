//! stub
use super::Outcome;
use std::path::Path;
/// x
/// # Errors
/// x
pub fn check_place(_: &Path) -> Result<(), String> {
    Ok(())
}
/// x
/// # Errors
/// x
pub fn write(_: &Path, _: &Outcome) -> Result<(), String> {
    Ok(())
}
