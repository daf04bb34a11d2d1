//! Parses the challenges of a `WWW-Authenticate` header.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic { realm: Option<String> },
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

impl Challenge {
    pub(super) fn realm(&self) -> Option<&str> {
        match self {
            Self::Basic { realm } => realm.as_deref(),
            Self::Bearer { realm, .. } => Some(realm),
        }
    }
}

/// The supported challenges of one header, which may hold several: `Bearer realm="…",service="…",
/// Basic realm="…"`.
pub(super) fn parse(header: &str) -> Vec<Challenge> {
    let mut challenges: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut rest = header;
    while let Some((word, after)) = token(rest) {
        if let Some(value) = after.trim_start().strip_prefix('=') {
            let (value, after) = value_of(value.trim_start());
            if let Some((_, parameters)) = challenges.last_mut() {
                parameters.push((word.to_ascii_lowercase(), value));
            }
            rest = after;
        } else {
            challenges.push((word.to_ascii_lowercase(), Vec::new()));
            rest = after;
        }
    }
    challenges
        .into_iter()
        .filter_map(|(scheme, parameters)| understood(&scheme, &parameters))
        .collect()
}

fn understood(scheme: &str, parameters: &[(String, String)]) -> Option<Challenge> {
    let parameter = |name: &str| {
        parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    match scheme {
        "basic" => Some(Challenge::Basic { realm: parameter("realm") }),
        "bearer" => Some(Challenge::Bearer {
            realm: parameter("realm")?,
            service: parameter("service"),
            scope: parameter("scope"),
        }),
        _ => None,
    }
}

/// The next word, and the rest of the text.
fn token(text: &str) -> Option<(&str, &str)> {
    let text =
        text.trim_start_matches(|character: char| character == ',' || character.is_whitespace());
    let length = text
        .find(|character: char| matches!(character, '=' | ',' | '"') || character.is_whitespace())
        .unwrap_or(text.len());
    (length > 0).then(|| text.split_at(length))
}

/// A value, in quotes or not, and the rest of the text. Without a closing quote, the value goes to
/// the end.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let length = text
            .find(|character: char| character == ',' || character.is_whitespace())
            .unwrap_or(text.len());
        let (value, rest) = text.split_at(length);
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return (value, quoted.get(place + 1..).unwrap_or_default()),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(realm: &str) -> Challenge {
        Challenge::Basic { realm: Some(realm.into()) }
    }

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.into(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        }
    }

    #[test]
    fn every_form_of_challenge_is_parsed() {
        for (header, challenges) in [
            ("Basic realm=\"r\"", vec![basic("r")]),
            ("basic", vec![Challenge::Basic { realm: None }]),
            (
                "Bearer realm=\"https://a.test/token?x=1,2\",service=\"r.test\",\
                 scope=\"repository:a:pull,push\"",
                vec![bearer(
                    "https://a.test/token?x=1,2",
                    Some("r.test"),
                    Some("repository:a:pull,push"),
                )],
            ),
            (
                "Bearer realm=https://a.test/token, service=s",
                vec![bearer("https://a.test/token", Some("s"), None)],
            ),
            (
                "BEARER Realm = \"https://a.test\" , error=\"invalid_token\"",
                vec![bearer("https://a.test", None, None)],
            ),
            (
                "Basic realm=\"a \\\" b\", Bearer realm=\"https://a.test\"",
                vec![basic("a \" b"), bearer("https://a.test", None, None)],
            ),
            ("Negotiate, Basic realm=x", vec![basic("x")]),
            ("Bearer service=\"without realm\"", vec![]),
            ("Bearer realm=\"https://a.test", vec![bearer("https://a.test", None, None)]),
            ("", vec![]),
        ] {
            assert_eq!(parse(header), challenges, "{header}");
        }
    }

    proptest::proptest! {
        #[test]
        fn parsing_neither_hangs_nor_panics(header in "[ -~\u{e4}]{0,60}") {
            let _ = parse(&header);
        }
    }
}
