//! The types that Kubernetes, which reads YAML 1.1, gives to unquoted words.

/// The type that a word is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Text,
    Null,
    Bool(bool),
    Number,
}

impl Meaning {
    pub fn of(word: &str) -> Self {
        match word {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                Self::Bool(true)
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off"
            | "OFF" => Self::Bool(false),
            _ if is_number(word) => Self::Number,
            _ => Self::Text,
        }
    }
}

fn is_number(word: &str) -> bool {
    let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(word, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return false;
    }
    let digits: String = unsigned.chars().filter(|&character| character != '_').collect();
    for (prefix, radix) in [("0x", 16), ("0b", 2), ("0o", 8)] {
        if let Some(rest) = digits.strip_prefix(prefix) {
            return u128::from_str_radix(rest, radix).is_ok();
        }
    }
    is_sexagesimal(&digits) || digits.parse::<f64>().is_ok()
}

/// Whether these digits are a sexagesimal number: `12:30:45` is 45045 in YAML 1.1.
fn is_sexagesimal(digits: &str) -> bool {
    let mut parts = digits.split(':');
    let leads = parts
        .next()
        .is_some_and(|first| !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit()));
    let mut rest = parts.peekable();
    leads
        && rest.peek().is_some()
        && rest.all(|part| part.len() <= 2 && part.parse::<u8>().is_ok_and(|part| part < 60))
}

#[cfg(test)]
mod tests {
    use super::Meaning;

    #[test]
    fn words_have_the_types_of_kubernetes() {
        for (word, meaning) in [
            ("on", Meaning::Bool(true)),
            ("n", Meaning::Bool(false)),
            ("~", Meaning::Null),
            ("1_000", Meaning::Number),
            ("12:30:45", Meaning::Number),
            ("0o7", Meaning::Number),
            ("0x1F", Meaning::Number),
            ("1e3", Meaning::Number),
            (".5", Meaning::Number),
            ("-.inf", Meaning::Number),
            ("1.2.3", Meaning::Text),
            ("tRue", Meaning::Text),
            ("127.0.0.1:80", Meaning::Text),
            ("inf", Meaning::Text),
            ("30s", Meaning::Text),
        ] {
            assert_eq!(Meaning::of(word), meaning, "{word}");
        }
    }
}
