//! Durations as manifests write them.

/// `30s`, `1.5s`, `500ms`, `1m30s`, and a number alone as seconds.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let mut sum = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() || rest.len() > 32 {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
        let number: f64 = rest.get(..digits)?.parse().ok()?;
        let after = rest.get(digits..)?;
        let letters = after.find(|character: char| character.is_ascii_digit()).unwrap_or(after.len());
        let factor = match after.get(..letters)? {
            "ms" => 1.0,
            "s" | "" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            _ => return None,
        };
        sum += number * factor;
        rest = after.get(letters..)?;
    }
    (sum < 1e15).then_some(sum as u64)
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn reads_durations() {
        for (text, wanted) in [
            ("30s", Some(30_000)),
            ("0s", Some(0)),
            ("1.5s", Some(1_500)),
            ("500ms", Some(500)),
            ("1m30s", Some(90_000)),
            ("1h", Some(3_600_000)),
            ("30", Some(30_000)),
            ("", None),
            ("s", None),
            ("10 s", None),
            ("never", None),
            ("999999999999999999999999h", None),
        ] {
            assert_eq!(milliseconds(text), wanted, "{text}");
        }
    }
}
