//! Formats the type of a WebAssembly function: `i32 i64 -> i32`.

pub(super) fn signature(parameters: &str, results: &str) -> String {
    let or_nothing =
        |types: &str| if types.is_empty() { "()".to_owned() } else { types.to_owned() };
    format!("{} -> {}", or_nothing(parameters), or_nothing(results))
}
