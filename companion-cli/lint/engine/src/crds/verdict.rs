//! One object against its schema: unknown fields, wrong values, validation rules that do not hold.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::cel;
use super::structural::{compiled, fill_defaults, json_schema};
use super::table::{Definition, Lookup};
use crate::{Assume, Node, Object, value_of};
use manifest_text::names;

/// The most values of an object that is validated. If a document is larger because of aliases,
/// LS004 reports it.
const MOST_VALUES: usize = 400_000;
/// The greatest depth of an object that is validated; no real object is deeper.
const DEEPEST: u16 = 200;
/// The most faults that are reported for one object: more would not help the user.
const MOST_FAULTS: usize = 50;

/// Files that look like objects, but never reach the API server: the configuration of Envoy Gateway
/// itself, and the report of the Gateway API's tests.
const OTHER_FILES: [(&str, &str); 2] =
    [("gateway.envoyproxy.io", "EnvoyGateway"), ("gateway.networking.k8s.io", "ConformanceReport")];

/// The kind of a fault; each has a separate rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    UnknownKind,
    UnknownField,
    WrongValue,
    Rule,
}

/// A fault for which the API server refuses an object.
pub(crate) struct Violation<'g> {
    pub(crate) fault: Fault,
    pub(crate) node: Node<'g>,
    pub(crate) message: String,
}

/// A kind's schema as the CRD has it, as JSON Schema, and compiled.
struct Compiled {
    definition: Definition,
    schema: Value,
    validator: Validator,
}

thread_local! {
    /// Compiled built-in schemas, kept because compiling takes longer than validating.
    static BUILT_IN: RefCell<HashMap<[String; 3], Option<Rc<Compiled>>>> = RefCell::default();
}

impl Compiled {
    /// A built-in schema is compiled once. A schema from a file is not kept, because it may differ
    /// in the next run.
    fn of(definition: Definition) -> Option<Rc<Self>> {
        if definition.releases.is_empty() {
            return Self::new(definition).map(Rc::new);
        }
        let key = [
            definition.group.clone(),
            definition.kind.clone(),
            definition.versions.join(",") + &definition.releases.join(","),
        ];
        BUILT_IN.with_borrow_mut(|known| {
            known.entry(key).or_insert_with(|| Self::new(definition).map(Rc::new)).clone()
        })
    }

    fn new(definition: Definition) -> Option<Self> {
        let schema = json_schema(&definition.schema);
        let validator = compiled(&schema).ok()?;
        Some(Self { definition, schema, validator })
    }

    /// The releases of a built-in schema, because a field that is unknown here may be of a newer
    /// one; nothing for a CRD from a file.
    fn origin(&self) -> String {
        match self.definition.releases.join(", ") {
            releases if releases.is_empty() => releases,
            releases => format!(" (in the CRD of {releases})"),
        }
    }
}

/// The schema of a kind; none if its group belongs to another project. If the kind or the version
/// is unknown: the field that says it, and a message.
type Schema = Result<Option<Rc<Compiled>>, (&'static str, String)>;

/// Compiled schemas, for all objects of a run.
#[derive(Default)]
pub(crate) struct Validators {
    schemas: HashMap<(String, String), Schema>,
}

impl Validators {
    pub(crate) fn judge<'g>(&mut self, assume: &Assume, object: Object<'g>) -> Vec<Violation<'g>> {
        let compiled = match self.compiled(assume, object) {
            Ok(Some(compiled)) => compiled,
            Ok(None) => return Vec::new(),
            Err((field, message)) => {
                let node = place(object.node, field);
                return vec![Violation { fault: Fault::UnknownKind, node, message }];
            }
        };
        let value = value_of(object.node, MOST_VALUES, DEEPEST);
        let Some(mut value) = value else { return Vec::new() };
        fill_defaults(&compiled.definition.schema, &mut value);
        let mut violations: Vec<_> = compiled
            .validator
            .iter_errors(&value)
            .take(MOST_FAULTS)
            .flat_map(|error| violations(object.node, &error, &compiled.schema))
            .collect();
        for violation in &mut violations {
            if violation.fault == Fault::UnknownField {
                violation.message.push_str(&compiled.origin());
            }
        }
        violations.extend(unnamed(object));
        if violations.is_empty() {
            // Like the API server, evaluate rules only on objects that fit the schema.
            let mut walk = Walk { root: object.node, found: Vec::new() };
            walk.down(&compiled.definition.schema, &value, object.node);
            violations = walk.found;
        }
        violations
    }

    fn compiled(&mut self, assume: &Assume, object: Object<'_>) -> Schema {
        let api = object.api_version();
        let Some((group, version)) = api.split_once('/') else { return Ok(None) };
        let kind = object.kind;
        if OTHER_FILES.contains(&(group, kind)) {
            return Ok(None);
        }
        let key = (api.to_owned(), kind.to_owned());
        if let Some(known) = self.schemas.get(&key) {
            return known.clone();
        }
        let compiled = match assume.crds.find((group, version), kind, assume.release_of(group)) {
            Lookup::UnknownGroup => Ok(None),
            Lookup::Found(known) => Ok(Compiled::of(*known)),
            Lookup::UnknownKind(kinds, release, elsewhere) => {
                let near = elsewhere.map_or_else(
                    || nearest(kind, kinds.iter().map(String::as_str)),
                    |other| format!(", but in {other}"),
                );
                Err(("kind", format!("`{group}` has no kind `{kind}` in {release}{near}")))
            }
            Lookup::UnknownVersion(served) => {
                let served = served.join("` or `");
                let message = format!("{kind} is not served in `{version}`: write `{served}`");
                Err(("apiVersion", message))
            }
        };
        self.schemas.insert(key, compiled.clone());
        compiled
    }
}

/// The fault of an object whose name is missing or invalid. `generateName` may replace the name.
fn unnamed(object: Object<'_>) -> Option<Violation<'_>> {
    let node = place(object.node, "metadata");
    let named = |path| object.node.fields(path).and_then(Node::value);
    let (node, message) = match (named("metadata.name"), named("metadata.generateName")) {
        (None, None) => (node, "`metadata.name` is missing".to_owned()),
        (Some(name), _) if names::subdomain(name).is_err() => {
            let form = "small letters, digits, `-` and `.` between them";
            (place(node, "name"), format!("`{name}` is not the name of an object: {form}"))
        }
        _ => return None,
    };
    Some(Violation { fault: Fault::WrongValue, node, message })
}

/// The child with this key, or the node itself if there is none.
fn place<'g>(node: Node<'g>, key: &str) -> Node<'g> {
    node.get(key).unwrap_or(node)
}

fn nearest<'k>(wrong: &str, known: impl Iterator<Item = &'k str>) -> String {
    let near = known.map(|name| (strsim::damerau_levenshtein(wrong, name), name)).min();
    near.filter(|(distance, name)| *distance <= 2.max(name.len() / 4))
        .map_or_else(String::new, |(_, name)| format!("; did you mean `{name}`?"))
}

fn violations<'g>(
    root: Node<'g>,
    error: &ValidationError<'_>,
    schema: &Value,
) -> Vec<Violation<'g>> {
    let node = at(root, error.instance_path().as_str());
    let place = match node.path() {
        path if path.is_empty() => "the object".to_owned(),
        path => format!("`{path}`"),
    };
    let one = |message: String| {
        vec![Violation { fault: Fault::WrongValue, node, message: format!("{place} {message}") }]
    };
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = || fields_beside(schema, error.schema_path().as_str());
            let unknown = |name: &String| Violation {
                fault: Fault::UnknownField,
                node: self::place(node, name),
                message: format!("{place} has no field `{name}`{}", nearest(name, known())),
            };
            unexpected.iter().map(unknown).collect()
        }
        ValidationErrorKind::Required { property } => {
            one(format!("lacks `{}`", property.as_str().unwrap_or_default()))
        }
        ValidationErrorKind::Type { kind } => {
            one(format!("is {}, not {}", noun(error.instance()), wanted(kind)))
        }
        ValidationErrorKind::Enum { options } => {
            one(format!("must be one of `{}`", names(options).join("`, `")))
        }
        ValidationErrorKind::Custom { message, .. } => one(message.clone()),
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            one("has fields that exclude each other: keep one of them".into())
        }
        ValidationErrorKind::OneOfNotValid { .. } | ValidationErrorKind::AnyOf { .. } => {
            one("fits none of the forms that the schema allows".into())
        }
        ValidationErrorKind::UniqueItems => one("names an item twice".into()),
        _ => one(format!("is out of bounds: {}", error.masked())),
    }
}

fn names(options: &Value) -> Vec<String> {
    let name = |option: &Value| option.as_str().map_or(option.to_string(), str::to_owned);
    options.as_array().into_iter().flatten().map(name).collect()
}

/// The fields of a schema that are declared beside the `additionalProperties` at `pointer`.
fn fields_beside<'s>(schema: &'s Value, pointer: &str) -> impl Iterator<Item = &'s str> {
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    let fields = schema.pointer(parent).and_then(|parent| parent["properties"].as_object());
    fields.into_iter().flatten().map(|(name, _)| name.as_str())
}

fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

fn wanted(kind: &TypeKind) -> String {
    let names = match kind {
        TypeKind::Single(kind) => vec![kind.to_string()],
        TypeKind::Multiple(kinds) => kinds.iter().map(|kind| kind.to_string()).collect(),
    };
    let plain = names.iter().map(|name| match name.as_str() {
        "object" => "a map",
        "array" => "a list",
        "string" => "a text",
        "integer" => "a whole number",
        "boolean" => "a boolean",
        "null" => "empty",
        _ => "a number",
    });
    plain.collect::<Vec<_>>().join(" or ")
}

/// The node that a JSON pointer leads to, or the last existing node on the way.
fn at<'g>(root: Node<'g>, pointer: &str) -> Node<'g> {
    root.nearest(pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")))
}

/// A parallel walk through an object and its schema.
struct Walk<'g> {
    root: Node<'g>,
    found: Vec<Violation<'g>>,
}

impl<'g> Walk<'g> {
    fn down(&mut self, schema: &Value, value: &Value, node: Node<'g>) {
        if value.is_null() || self.found.len() >= MOST_FAULTS {
            return;
        }
        self.judge(schema, value, node);
        match value {
            Value::Object(members) => {
                for (name, inner) in members {
                    let field = schema["properties"]
                        .get(name)
                        .or_else(|| schema.get("additionalProperties"))
                        .filter(|field| field.is_object());
                    if let Some(field) = field {
                        self.down(field, inner, place(node, name));
                    }
                }
            }
            Value::Array(items) => {
                // The values of a default have no nodes.
                let nodes = node.items().chain(std::iter::repeat(node));
                for (inner, item) in items.iter().zip(nodes) {
                    self.down(&schema["items"], inner, item);
                }
            }
            _ => {}
        }
    }

    fn judge(&mut self, schema: &Value, value: &Value, node: Node<'g>) {
        for validation in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let rule = validation["rule"].as_str().unwrap_or_default();
            if cel::holds(rule, schema, value) == Some(false) {
                let reason = validation["message"].as_str().map_or_else(
                    || format!("the rule `{}` does not hold", rule.trim()),
                    |message| message.trim().to_owned(),
                );
                self.add(Fault::Rule, node, &reason);
            }
        }
        if let (Some("map"), Some(items)) =
            (schema["x-kubernetes-list-type"].as_str(), value.as_array())
        {
            let names = schema["x-kubernetes-list-map-keys"].as_array();
            let keys: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
            let key_of =
                |item: &Value| keys.iter().map(|key| item[*key].clone()).collect::<Vec<_>>();
            let mut known = HashSet::new();
            let nodes = node.items().chain(std::iter::repeat(node));
            for (item, node) in items.iter().zip(nodes) {
                if !known.insert(key_of(item)) {
                    let reason = format!("another item has the same `{}`", keys.join("`, `"));
                    self.add(Fault::WrongValue, node, &reason);
                }
            }
        }
    }

    fn add(&mut self, fault: Fault, node: Node<'g>, reason: &str) {
        let path =
            if node == self.root { "the object".into() } else { format!("`{}`", node.path()) };
        self.found.push(Violation { fault, node, message: format!("{path}: {reason}") });
    }
}
