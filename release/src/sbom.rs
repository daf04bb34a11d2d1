//! The bill of materials without the fields that differ between runs and machines: serial number,
//! time and folders.

use serde_json::Value;

use laststream_base::causes::Context as _;

const WHAT: &str = "the bill of materials";
/// The prefix of cargo's names for packages of a workspace, before the folder.
const LOCAL: &str = "path+file://";
/// The replacement for the folder of the workspace.
const WORKSPACE: &str = "workspace";

/// Makes the output of cargo-cyclonedx reproducible.
pub(crate) fn reproducible(json: &[u8]) -> Result<Vec<u8>, String> {
    let mut sbom: Value = serde_json::from_slice(json).context(WHAT)?;
    let format = sbom["bomFormat"].as_str().unwrap_or_default();
    if format != "CycloneDX" {
        return Err(format!("{WHAT}: its `bomFormat` is `{format}`"));
    }
    if let Some(fields) = sbom.as_object_mut() {
        fields.shift_remove("serialNumber");
    }
    if let Some(metadata) = sbom.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("timestamp");
    }
    let folder = workspace(&sbom).map(|folder| [LOCAL, folder].concat());
    let mut text = format!("{sbom:#}\n");
    if let Some(folder) = folder {
        text = text.replace(&folder, WORKSPACE);
    }
    Ok(text.into_bytes())
}

/// The folder of the workspace, as it is in the reference of the program:
/// `path+file://FOLDER/companion-cli#laststream@0.1.0`.
fn workspace(sbom: &Value) -> Option<&str> {
    let reference = sbom["metadata"]["component"]["bom-ref"].as_str()?;
    let (package, _) = reference.strip_prefix(LOCAL)?.split_once('#')?;
    package.rsplit_once('/').map(|(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sbom(folder: &str, number: &str) -> Vec<u8> {
        json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "serialNumber": format!("urn:uuid:{number}"),
            "metadata": {
                "timestamp": format!("2026-01-01T00:00:0{number}Z"),
                "component": {
                    "bom-ref": format!("path+file://{folder}/companion-cli#laststream@0.1.0"),
                    "name": "laststream",
                },
            },
            "components": [
                { "bom-ref": format!("path+file://{folder}/filter#laststream-filter@0.1.0") },
            ],
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn number_time_and_folder_make_no_difference() {
        let first = reproducible(&sbom("/home/one/laststream", "1")).unwrap();
        assert_eq!(first, reproducible(&sbom("/two", "2")).unwrap());
        let value: Value = serde_json::from_slice(&first).unwrap();
        assert_eq!(value["components"][0]["bom-ref"], "workspace/filter#laststream-filter@0.1.0");
        assert_eq!(value["metadata"]["component"]["name"], "laststream");
        assert!(value["serialNumber"].is_null() && value["metadata"]["timestamp"].is_null());
    }

    #[test]
    fn other_json_is_refused() {
        for wrong in ["", "[]", "{}", r#"{"bomFormat": "SPDX"}"#] {
            assert!(reproducible(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
