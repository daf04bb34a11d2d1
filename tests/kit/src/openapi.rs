//! An OpenAPI file: its description of requests and their answers, and checks of values against its
//! schemas.

use serde_json::{Value, json};

use crate::h1::Response;
use crate::{Context as _, Outcome, bail, ensure};

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Headers that Envoy puts on every answer.
const ENVOYS: [&str; 4] = ["connection", "content-length", "date", "server"];

pub struct Document(Value);

/// A path and a method.
pub struct Operation<'d> {
    pub path: &'d str,
    pub method: String,
    pub node: &'d Value,
}

impl Document {
    pub fn read(text: &str) -> Outcome<Self> {
        Ok(Self(serde_saphyr::from_str(text).context("the OpenAPI file")?))
    }

    pub fn root(&self) -> &Value {
        &self.0
    }

    /// All operations, in the order of the file.
    pub fn operations(&self) -> Vec<Operation<'_>> {
        let mut operations = Vec::new();
        for (path, item) in members(&self.0["paths"]) {
            for (method, node) in
                members(item).filter(|(method, _)| METHODS.contains(&method.as_str()))
            {
                operations.push(Operation { path, method: method.to_uppercase(), node });
            }
        }
        operations
    }

    /// The node itself, or the one that it refers to.
    pub fn resolve<'d>(&'d self, node: &'d Value) -> Outcome<&'d Value> {
        let Some(reference) = node["$ref"].as_str() else { return Ok(node) };
        let found = reference.strip_prefix('#').and_then(|pointer| self.0.pointer(pointer));
        found.with_context(|| format!("{reference} leads nowhere"))
    }

    /// The operation's description of an answer with this status, and the heading above it.
    pub fn response<'d>(
        &'d self,
        operation: &Operation<'d>,
        status: u16,
    ) -> Outcome<(String, &'d Value)> {
        let responses = &operation.node["responses"];
        for heading in [status.to_string(), "default".into()] {
            if let Some(response) = responses.get(&heading) {
                return Ok((heading, self.resolve(response)?));
            }
        }
        bail!("{} {} says nothing of {status}", operation.method, operation.path)
    }

    /// Fails with all violations of the schema.
    pub fn check(&self, schema: &Value, value: &Value) -> Outcome {
        let whole = json!({ "allOf": [schema], "components": self.0["components"] });
        let validator =
            jsonschema::draft202012::new(&whole).with_context(|| format!("the schema {schema}"))?;
        let complaints: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("at `{}`: {error}", error.instance_path()))
            .collect();
        ensure!(
            complaints.is_empty(),
            "{value} is not what {schema} says: {}",
            complaints.join("; ")
        );
        Ok(())
    }

    /// Whether the operation allows this query: every parameter is documented and matches its
    /// schema, and no required one is missing.
    pub fn allows(&self, operation: &Operation<'_>, query: &str) -> Outcome<bool> {
        let mut given: Vec<(&str, &str)> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .collect();
        for parameter in operation.node["parameters"].as_array().into_iter().flatten() {
            let parameter = self.resolve(parameter)?;
            let name = parameter["name"].as_str().context("a parameter without a name")?;
            match given.iter().position(|(other, _)| *other == name) {
                Some(index) => {
                    let (_, value) = given.swap_remove(index);
                    let schema = &parameter["schema"];
                    let number =
                        (schema["type"] == "integer").then(|| value.parse::<i64>().ok()).flatten();
                    if self.check(schema, &number.map_or(json!(value), Value::from)).is_err() {
                        return Ok(false);
                    }
                }
                None if parameter["required"] == true => return Ok(false),
                None => {}
            }
        }
        Ok(given.is_empty())
    }

    /// Checks an answer against its description: content type, body, and every header.
    pub fn judge(&self, said: &Value, answer: &Response, has_body: bool) -> Outcome {
        self.judge_headers(said, answer)?;
        let kind = answer.header("content-type").context("an answer without content-type")?;
        let content = &said["content"][&kind];
        ensure!(content.is_object(), "the content type {kind} is not in the file: {said}");
        if !has_body {
            ensure!(answer.body.is_empty(), "a body where none may be: {}", answer.text());
            return Ok(());
        }
        let body = if kind == "application/json" { answer.json()? } else { answer.text().into() };
        self.check(&content["schema"], &body)
    }

    fn judge_headers(&self, said: &Value, answer: &Response) -> Outcome {
        let mut documented = Vec::new();
        for (name, header) in members(&said["headers"]) {
            let header = self.resolve(header)?;
            documented.push(name.to_lowercase());
            match answer.header(name) {
                Some(value) if header["schema"]["type"] == "integer" => {
                    let number: i64 = value.parse().with_context(|| format!("{name}: {value}"))?;
                    self.check(&header["schema"], &number.into())?;
                }
                Some(value) => self.check(&header["schema"], &value.into())?,
                None => ensure!(header["required"] != true, "the header {name} is missing"),
            }
        }
        for (name, value) in &answer.headers.0 {
            let known = name == "content-type"
                || ENVOYS.contains(&name.as_str())
                || documented.contains(name);
            ensure!(
                known,
                "the header {name}: {} is not in the file",
                String::from_utf8_lossy(value)
            );
        }
        Ok(())
    }
}

/// The members of an object; none of anything else.
pub fn members(node: &Value) -> impl Iterator<Item = (&String, &Value)> {
    node.as_object().into_iter().flatten()
}
