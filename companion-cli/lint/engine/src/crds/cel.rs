//! The validation rules of a schema (`x-kubernetes-validations`): CEL expressions over `self`.
//!
//! A rule that reads the object's former state, or that calls a function that this evaluator lacks,
//! has no verdict: the API server decides.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cel::extractors::This;
use cel::{Context, Env, ExecutionError, Program, Value as Cel, extensions};
use chrono::TimeDelta;
use manifest_text::time_span::go_duration;
use serde_json::Value;
use url::Url;

/// Reserved words of CEL, which cannot be field names; Kubernetes puts underscores around them.
const RESERVED: &str = "true false null in as break const continue else for function if import \
    let loop package namespace return var void while";

/// The name under which rules find [`duration`]: the evaluator's own function takes `10sec` for ten
/// seconds, and cannot be replaced under its name.
const DURATION: &str = "go_duration";

thread_local! {
    /// Compiled rules, kept because compiling takes longer than evaluating, and one run may check
    /// thousands of objects.
    static RULES: RefCell<Rules> = RefCell::default();
}

/// Whether the rule holds; none if it cannot be evaluated.
pub(super) fn holds(rule: &str, schema: &Value, value: &Value) -> Option<bool> {
    RULES.with_borrow_mut(|rules| rules.holds(rule, schema, value))
}

/// Rules by their text, compiled once.
struct Rules {
    environment: Arc<Env>,
    programs: HashMap<String, Option<Program>>,
}

impl Default for Rules {
    fn default() -> Self {
        let mut environment = Env::stdlib();
        // The extensions of CEL that Kubernetes enables. If names clashed, functions would be
        // missing, and rules that need them would have no verdict.
        for extension in [extensions::strings, extensions::lists, extensions::math] {
            let _ = extension(&mut environment);
        }
        Self { environment: Arc::new(environment), programs: HashMap::new() }
    }
}

impl Rules {
    fn holds(&mut self, rule: &str, schema: &Value, value: &Value) -> Option<bool> {
        if rule.contains("oldSelf") {
            return None;
        }
        if !self.programs.contains_key(rule) {
            let text = rule.replace("duration(", &format!("{DURATION}("));
            self.programs.insert(rule.to_owned(), self.environment.compile(&text).ok());
        }
        let program = self.programs.get(rule)?.as_ref()?;
        let mut context = Context::with_env(Arc::clone(&self.environment));
        add_functions(&mut context);
        context.add_variable_from_value("self", to_cel(schema, value));
        match program.execute(&context) {
            Ok(Cel::Bool(holds)) => Some(holds),
            Err(error) if is_of_the_value(&error) => Some(false),
            _ => None,
        }
    }
}

/// Whether the value is the reason, not a function that this evaluator lacks: a field that is not
/// set, a text that is no duration. The API server refuses the object for such an error, too.
fn is_of_the_value(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::NoSuchKey(_)
            | ExecutionError::FunctionError { .. }
            | ExecutionError::IndexOutOfBounds(_)
            | ExecutionError::DivisionByZero(_)
            | ExecutionError::RemainderByZero(_)
            | ExecutionError::Overflow(..)
    )
}

/// Adds Kubernetes' own functions that rules in the table use. A test lists those that are missing.
fn add_functions(context: &mut Context<'_, '_>) {
    let is_url = |text: Arc<String>| text.starts_with('/') || Url::parse(&text).is_ok();
    let scheme = |This(url): This<Arc<String>>| {
        Url::parse(&url).map(|url| url.scheme().to_owned()).unwrap_or_default()
    };
    // Adding fails only if the standard library has a function of that name, which is then correct.
    let _ = context.add_function("isURL", is_url);
    let _ = context.add_function("url", |text: Arc<String>| text);
    let _ = context.add_function("getScheme", scheme);
    let _ = context.add_function(DURATION, duration);
    let _ = context.add_function("isIP", |text: Arc<String>| text.parse::<IpAddr>().is_ok());
}

/// A duration as Go reads it: `1h30m`, `1.5s`, `0`.
fn duration(text: Arc<String>) -> Result<Cel, ExecutionError> {
    let unsigned = text.strip_prefix('-').unwrap_or(&text);
    let time = if unsigned == "0" { Some(Duration::ZERO) } else { go_duration(unsigned) };
    let time = time.and_then(|time| TimeDelta::from_std(time).ok());
    let time = time.ok_or_else(|| ExecutionError::function_error("duration", "no duration"))?;
    Ok(Cel::Duration(if unsigned.len() < text.len() { -time } else { time }))
}

/// A JSON value as a CEL value. As in Kubernetes, the schema decides the type of a number, not its
/// notation.
fn to_cel(schema: &Value, value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match number.as_i64().filter(|_| schema["type"] != "number") {
            Some(whole) => Cel::Int(whole),
            None => Cel::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Cel::from(text.as_str()),
        Value::Array(items) => {
            Cel::from(items.iter().map(|item| to_cel(&schema["items"], item)).collect::<Vec<_>>())
        }
        Value::Object(members) => {
            let has_fields = schema["properties"].is_object();
            let member = |(name, value): (&String, &Value)| {
                let inner = if has_fields {
                    &schema["properties"][name]
                } else {
                    &schema["additionalProperties"]
                };
                let name = if has_fields { field_name(name) } else { name.clone() };
                (name, to_cel(inner, value))
            };
            Cel::from(members.iter().map(member).collect::<HashMap<_, _>>())
        }
    }
}

fn field_name(name: &str) -> String {
    if RESERVED.split(' ').any(|word| word == name) {
        return format!("__{name}__");
    }
    let name = name.replace("__", "__underscores__").replace('.', "__dot__");
    name.replace('-', "__dash__").replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::Rules;
    use serde_json::{Value, json};

    #[test]
    fn a_rule_holds_or_fails_or_has_no_verdict() {
        let object = json!({ "type": "object", "properties": {
            "namespace": { "type": "string" },
            "weight": { "type": "number" },
        } });
        let value = json!({ "namespace": "n", "weight": 1 });
        for (rule, verdict) in [
            ("has(self.weight)", Some(true)),
            ("self.__namespace__ == 'x'", Some(false)),
            ("self.weight < 1.5", Some(true)),
            ("self.weight == oldSelf.weight", None),
            ("self.nothing == 1", Some(false)),
            ("quantity(self.namespace).isGreaterThan(quantity('1'))", None),
            ("not CEL at all (", None),
        ] {
            assert_eq!(Rules::default().holds(rule, &object, &value), verdict, "{rule}");
        }
        let mut rules = Rules::default();
        let duration = "duration(self) >= duration('1ms')";
        assert_eq!(rules.holds(duration, &json!({}), &json!("1.5s")), Some(true));
        assert_eq!(rules.holds(duration, &json!({}), &json!("0s")), Some(false));
        for (text, verdict) in [
            ("1h30m", Some(true)),
            ("1.5s", Some(true)),
            ("100us", Some(false)),
            ("10", Some(false)),
            ("10sec", Some(false)),
            ("1d", Some(false)),
            ("", Some(false)),
        ] {
            assert_eq!(rules.holds(duration, &json!({}), &json!(text)), verdict, "{text}");
        }
        let one_of = "(has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) <= 1";
        assert_eq!(rules.holds(one_of, &json!({}), &json!({ "a": 1, "b": 1 })), Some(false));
        let unique = "self.all(p, self.exists_one(q, p.name == q.name))";
        let twice = json!([{ "name": "a" }, { "name": "a" }]);
        assert_eq!(rules.holds(unique, &json!({}), &twice), Some(false));
        let scheme = "isURL(self) && url(self).getScheme() in ['oci', 'https']";
        assert_eq!(rules.holds(scheme, &json!({}), &json!("oci://r.test/m:1")), Some(true));
        assert_eq!(rules.holds(scheme, &json!({}), &json!("ftp://r.test/m")), Some(false));
        assert_eq!(rules.holds("isIP(self)", &json!({}), &json!("::1")), Some(true));
        let ascii = "self.upperAscii() in ['POST', 'PUT'] && self.matches('^p')";
        assert_eq!(rules.holds(ascii, &json!({}), &json!("put")), Some(true));
    }

    /// A rule with an unknown function has no verdict, so each unknown function is listed here.
    #[test]
    fn unknown_functions_of_the_table_are_listed() {
        let known = [
            "duration",
            "exists_one",
            "filter",
            "getScheme",
            "int",
            "isIP",
            "isURL",
            "lowerAscii",
            "matches",
            "split",
            "substring",
            "upperAscii",
            "url",
            "all",
            "exists",
            "has",
            "size",
            "contains",
            "endsWith",
            "startsWith",
            "string",
            "map",
            "dyn",
            "type",
            "double",
        ];
        let mut unknown = std::collections::BTreeSet::new();
        for line in super::super::table::table().lines() {
            let schema: Value = serde_json::from_str(line.rsplit('\t').next().unwrap_or_default())
                .expect("a schema");
            for rule in rules_in(&schema) {
                let program = Rules::default().environment.compile(rule).expect(rule);
                let functions = program.references();
                let named = functions.functions().into_iter().filter(|name| {
                    name.starts_with(|c: char| c.is_ascii_alphabetic()) && !known.contains(name)
                });
                unknown.extend(named.map(str::to_owned));
            }
        }
        // Three rules of the Gateway API check names with Kubernetes' `format` library.
        let of_format =
            ["dns1123Label", "dns1123Subdomain", "hasValue", "qualifiedName", "validate"];
        assert_eq!(unknown, of_format.map(str::to_owned).into());
    }

    fn rules_in(schema: &Value) -> Vec<&str> {
        match schema {
            Value::Object(members) => members
                .iter()
                .flat_map(|(name, value)| match value.as_str() {
                    Some(rule) if name == "rule" => vec![rule],
                    _ => rules_in(value),
                })
                .collect(),
            Value::Array(items) => items.iter().flat_map(rules_in).collect(),
            _ => Vec::new(),
        }
    }
}
