//! Schemas by group and kind: the built-in table of released versions, and CRDs from files.
//!
//! The table is generated from the CRDs in the projects' Go modules (`cargo bless
//! measured`), one line for each schema, so that only the schemas in use are parsed.

use std::io::Read as _;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

use super::structural::{compiled, json_schema};
use manifest_text::parse_error::ParseError;

/// Group, kind, served versions, releases and schema, separated by tabs.
const TABLE: &[u8] = include_bytes!("table.tsv.gz");

/// One kind's schema, and the versions and releases that have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub group: String,
    pub kind: String,
    /// The versions that the API server serves with this schema.
    pub versions: Vec<String>,
    /// The releases that have this schema, such as `istio-1.29`; none for a CRD from a file.
    pub releases: Vec<String>,
    /// The OpenAPI v3 schema, without descriptions and `status`.
    pub schema: Value,
}

/// A file that holds no usable CRD.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    #[error("`{file}` is not readable as YAML: {reason}")]
    Unreadable { file: String, reason: String },
    #[error(
        "`{0}` holds no CustomResourceDefinition with a schema: name a file such as the output \
         of `kubectl get crd envoyfilters.networking.istio.io -o yaml`"
    )]
    Empty(String),
    #[error("`{file}` has a schema of {kind} by which nothing can be checked: {reason}")]
    Unusable { file: String, kind: String, reason: String },
}

impl Definition {
    /// The CRDs of a text, in YAML or JSON; lists are opened.
    pub fn of_crds(file: &str, text: &str) -> Result<Vec<Self>, CrdError> {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|error| CrdError::Unreadable {
                file: file.to_owned(),
                reason: ParseError::from(&error).to_string(),
            })?;
        let mut definitions = Vec::new();
        for document in documents {
            let items = document.get("items").and_then(Value::as_array).cloned();
            for crd in items.unwrap_or_else(|| vec![document]) {
                definitions.extend(Self::of_crd(&crd));
            }
        }
        if definitions.is_empty() {
            return Err(CrdError::Empty(file.to_owned()));
        }
        for definition in &definitions {
            compiled(&json_schema(&definition.schema)).map_err(|reason| CrdError::Unusable {
                file: file.to_owned(),
                kind: definition.kind.clone(),
                reason,
            })?;
        }
        Ok(definitions)
    }

    /// One definition for each schema: versions with the same schema share one.
    fn of_crd(crd: &Value) -> Vec<Self> {
        let mut definitions: Vec<Self> = Vec::new();
        if crd["kind"] != "CustomResourceDefinition" {
            return definitions;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, kind) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["kind"]));
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            let schema = &version["schema"]["openAPIV3Schema"];
            if version["served"] == false || !schema.is_object() {
                continue;
            }
            let (name, schema) = (text(&version["name"]), compact(schema));
            match definitions.iter_mut().find(|known| known.schema == schema) {
                Some(known) => known.versions.push(name),
                None => definitions.push(Self {
                    group: group.clone(),
                    kind: kind.clone(),
                    versions: vec![name],
                    releases: Vec::new(),
                    schema,
                }),
            }
        }
        definitions
    }

    /// The text of the table for the CRDs of several releases; equal schemas share a line.
    pub fn table(releases: Vec<(String, Vec<Self>)>) -> String {
        let mut lines: Vec<Self> = Vec::new();
        for (release, definitions) in releases {
            for definition in definitions {
                match lines.iter_mut().find(|known| known.key() == definition.key()) {
                    Some(known) => known.releases.push(release.clone()),
                    None => lines.push(Self { releases: vec![release.clone()], ..definition }),
                }
            }
        }
        let mut lines: Vec<String> = lines.iter().map(Self::line).collect();
        lines.sort();
        lines.concat()
    }

    fn key(&self) -> (&str, &str, &[String], &Value) {
        (&self.group, &self.kind, &self.versions, &self.schema)
    }

    fn line(&self) -> String {
        let (versions, releases) = (self.versions.join(","), self.releases.join(","));
        format!("{}\t{}\t{versions}\t{releases}\t{}\n", self.group, self.kind, self.schema)
    }
}

/// The schema without descriptions, and without the schema of `status`, because manifests do not
/// contain a status.
fn compact(schema: &Value) -> Value {
    let mut schema = without_descriptions(schema);
    if let Some(status) = schema.pointer_mut("/properties/status") {
        *status = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    }
    schema
}

fn without_descriptions(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(name, value)| name.as_str() != "description" || !value.is_string())
            .map(|(name, value)| (name.clone(), without_descriptions(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_descriptions).collect(),
        other => other.clone(),
    }
}

/// The schemas that objects are checked against.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Definitions(Vec<Definition>);

/// The result of looking up an object's `apiVersion` and `kind`.
#[derive(Debug, PartialEq)]
pub(super) enum Lookup {
    /// The group belongs to another project.
    UnknownGroup,
    /// The group has no such kind in this release; the kinds that it has, and the newest release
    /// that has this one.
    UnknownKind(Vec<String>, &'static str, Option<&'static str>),
    /// The kind is not served in this version; the versions that are.
    UnknownVersion(Vec<String>),
    Found(Box<Definition>),
}

impl Definitions {
    /// CRDs from files: they replace the built-in schemas of their kinds.
    pub fn from_files(definitions: Vec<Definition>) -> Self {
        Self(definitions)
    }

    /// Without a release of the group's project, or with one newer than the table, the newest
    /// schema is used; with one older than the table, the oldest.
    pub(super) fn find(
        &self,
        (group, version): (&str, &str),
        kind: &str,
        of_user: Option<(u32, u32)>,
    ) -> Lookup {
        let definitions: Vec<Definition> = self
            .0
            .iter()
            .filter(|own| (&*own.group, &*own.kind) == (group, kind))
            .cloned()
            .collect();
        if !definitions.is_empty() {
            return chosen(definitions, version);
        }
        let lines = lines_of(group, of_user);
        if lines.is_empty() {
            return Lookup::UnknownGroup;
        }
        let of_kind: Vec<_> = lines.iter().filter(|line| line[1] == kind).collect();
        if of_kind.is_empty() {
            let newest = |line: &[&'static str; 5]| line[3].rsplit(',').next();
            let release = lines.iter().filter_map(newest).max();
            let kinds = lines.iter().map(|line| line[1].to_owned()).collect();
            let elsewhere = lines_in(group).filter(|line| line[1] == kind);
            let elsewhere = elsewhere.filter_map(|line| newest(&line)).max();
            return Lookup::UnknownKind(kinds, release.unwrap_or_default(), elsewhere);
        }
        // Only the schema in use is parsed.
        let is_served = |line: &&&[&str; 5]| line[2].split(',').any(|served| served == version);
        match of_kind.iter().find(is_served) {
            Some(line) => Lookup::Found(Box::new(definition(line))),
            None => Lookup::UnknownVersion(
                of_kind.iter().flat_map(|line| line[2].split(',')).map(str::to_owned).collect(),
            ),
        }
    }
}

fn chosen(definitions: Vec<Definition>, version: &str) -> Lookup {
    let versions = definitions.iter().flat_map(|known| known.versions.clone()).collect();
    let definition =
        definitions.into_iter().find(|known| known.versions.iter().any(|served| served == version));
    definition.map_or(Lookup::UnknownVersion(versions), |known| Lookup::Found(Box::new(known)))
}

fn lines_in(group: &str) -> impl Iterator<Item = [&'static str; 5]> {
    table().lines().filter_map(columns).filter(move |line| line[0] == group)
}

/// The lines of a group in one release: the newest one that is not newer than the user's, or else
/// the oldest one.
fn lines_of(group: &str, of_user: Option<(u32, u32)>) -> Vec<[&'static str; 5]> {
    let releases = || lines_in(group).flat_map(|line| line[3].split(',')).filter_map(release);
    let newest = match of_user {
        Some(own) => releases().filter(|known| *known <= own).max().or(releases().min()),
        None => releases().max(),
    };
    let is_wanted = |line: &[&str; 5]| {
        line[3].split(',').filter_map(release).any(|known| Some(known) == newest)
    };
    lines_in(group).filter(is_wanted).collect()
}

fn definition(&[group, kind, versions, releases, schema]: &[&str; 5]) -> Definition {
    let names = |list: &str| list.split(',').map(str::to_owned).collect();
    Definition {
        group: group.to_owned(),
        kind: kind.to_owned(),
        versions: names(versions),
        releases: names(releases),
        schema: serde_json::from_str(schema).unwrap_or_default(),
    }
}

fn columns(line: &str) -> Option<[&str; 5]> {
    line.splitn(5, '\t').collect::<Vec<_>>().try_into().ok()
}

/// Major and minor of a release such as `istio-1.29`.
fn release(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.rsplit_once('-')?.1.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether any of the built-in schemas has a field of this name.
pub(crate) fn has_field(name: &str) -> bool {
    table().contains(&format!("\"{name}\":"))
}

pub(super) fn table() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut text = String::new();
        // If unpacking failed, the rest of the table would be missing; a test reads the whole
        // table.
        let _ = GzDecoder::new(TABLE).read_to_string(&mut text);
        text
    });
    &TEXT
}

#[cfg(test)]
pub(super) fn built_in() -> Vec<Definition> {
    table().lines().filter_map(columns).map(|line| definition(&line)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use manifest_text::versions::{ENVOY_GATEWAY, GATEWAY_API, ISTIO};

    use super::{Definition, Definitions, Lookup, columns, release, table};

    const CRD: &str = "
kind: CustomResourceDefinition
spec:
  group: g.test
  names: {kind: Thing}
  versions:
  - name: v1
    served: true
    schema: &schema
      openAPIV3Schema:
        description: words
        properties: {description: {type: string, description: words}}
  - {name: v2, served: true, schema: *schema}
  - {name: v0, served: false, schema: *schema}
";

    #[test]
    fn every_line_of_the_table_is_a_definition() {
        let text = table();
        assert!(text.lines().count() > 20, "{}", text.len());
        for line in text.lines() {
            let [_, kind, versions, releases, schema] = columns(line).expect("five columns");
            assert!(
                !versions.is_empty() && releases.split(',').all(|name| release(name).is_some())
            );
            let schema: serde_json::Value = serde_json::from_str(schema).expect(kind);
            assert_eq!(schema["type"], "object", "{kind}");
        }
    }

    #[test]
    fn the_table_has_the_releases_of_the_list_of_versions() {
        for (group, program) in [
            ("istio.io", ISTIO),
            ("gateway.networking.k8s.io", GATEWAY_API),
            ("gateway.envoyproxy.io", ENVOY_GATEWAY),
        ] {
            let lines = table().lines().filter_map(columns).filter(|line| line[0].ends_with(group));
            let releases: BTreeSet<_> =
                lines.flat_map(|line| line[3].split(',').filter_map(release)).collect();
            let ends = [releases.first(), releases.last()].map(Option::<&_>::copied);
            assert_eq!(ends, [Some(program.oldest), Some(program.newest)], "{group}");
        }
    }

    #[test]
    fn the_mesh_s_version_selects_the_schema() {
        let find = |kind, istio| {
            Definitions::default().find(("networking.istio.io", "v1alpha3"), kind, istio)
        };
        let Lookup::Found(newest) = find("EnvoyFilter", None) else { panic!() };
        let Lookup::Found(old) = find("EnvoyFilter", Some((1, 28))) else { panic!() };
        assert_ne!(newest.schema, old.schema);
        let Lookup::Found(oldest) = find("EnvoyFilter", Some((1, 2))) else { panic!() };
        assert_eq!(oldest, old, "older than the table: the oldest schema");
        assert!(matches!(find("EnvoyFliter", None), Lookup::UnknownKind(..)));
        let find = |version| {
            Definitions::default().find(("networking.istio.io", version), "EnvoyFilter", None)
        };
        assert_eq!(find("v1"), Lookup::UnknownVersion(vec!["v1alpha3".into()]));
        let find = |version| {
            let kind = ("gateway.networking.x-k8s.io", "v1alpha1");
            Definitions::default().find(kind, "XListenerSet", version)
        };
        let Lookup::UnknownKind(_, newest, other) = find(None) else { panic!() };
        assert_eq!((newest, other), ("gateway-api-1.7", Some("gateway-api-1.4")));
        assert!(matches!(find(Some((1, 4))), Lookup::Found(_)));
        assert_eq!(
            Definitions::default().find(("apps", "v1"), "Deployment", None),
            Lookup::UnknownGroup
        );
    }

    #[test]
    fn a_file_s_crds_replace_the_built_in_ones() {
        let read = Definition::of_crds("f", CRD).expect("a CRD");
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].versions, ["v1", "v2"], "without the version that is not served");
        assert_eq!(
            read[0].schema.to_string(),
            r#"{"properties":{"description":{"type":"string"}}}"#,
            "a field may be called description"
        );
        let own = Definitions::from_files(read);
        assert!(matches!(own.find(("g.test", "v2"), "Thing", None), Lookup::Found(_)));
        let unusable = CRD.replace("type: string,", "type: string, pattern: \"(\",");
        for (text, reason) in [
            ("a: [", "not readable"),
            ("kind: Pod", "no CustomResource"),
            (&unusable, "schema of Thing"),
        ] {
            let error = Definition::of_crds("f.yaml", text).expect_err(text).to_string();
            assert!(error.contains("`f.yaml`") && error.contains(reason), "{error}");
        }
    }
}
