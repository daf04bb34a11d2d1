//! A registry in memory that fails as a script says, and keeps the requests to it.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::ServerConfig;

use super::sha256;
use crate::fake_server::{Answer, Asked, Fault, Service, serve};
use crate::{Outcome, locked};

/// The operation that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    LookForBlob,
    BeginUpload,
    Upload,
    GetBlob,
    PutManifest,
    LookForManifest,
    GetManifest,
    Token,
    Other,
}

pub const PUSH: [Operation; 4] =
    [Operation::LookForBlob, Operation::BeginUpload, Operation::Upload, Operation::PutManifest];

/// Decides by the request, its operation, and the number of earlier requests for that operation.
type Script = dyn Fn(&Asked, Operation, usize) -> Option<Fault> + Send + Sync;

pub struct Faulty {
    service: Arc<Memory>,
    address: SocketAddr,
}

struct Memory {
    script: Box<Script>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: Vec<(Operation, Asked)>,
    counts: HashMap<Operation, usize>,
    blobs: HashMap<String, Vec<u8>>,
    /// By path.
    manifests: HashMap<String, Vec<u8>>,
    sessions: usize,
    /// The paths of upload sessions that have begun to receive data, even half a blob.
    used: HashSet<String>,
}

impl Faulty {
    pub fn start(
        script: impl Fn(&Asked, Operation, usize) -> Option<Fault> + Send + Sync + 'static,
    ) -> Outcome<Self> {
        Self::start_with(None, script)
    }

    /// Each request for this operation fails in this way.
    pub fn failing(failing: Operation, fault: Fault) -> Outcome<Self> {
        Self::start(move |_, operation, _| (operation == failing).then(|| fault.clone()))
    }

    pub fn start_with(
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&Asked, Operation, usize) -> Option<Fault> + Send + Sync + 'static,
    ) -> Outcome<Self> {
        let service = Arc::new(Memory { script: Box::new(script), state: Mutex::default() });
        let address = serve(tls, service.clone())?;
        Ok(Self { service, address })
    }

    /// `127.0.0.1:PORT`
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    pub fn image(&self) -> String {
        format!("{}/laststream:1", self.address)
    }

    pub fn asked(&self) -> Vec<(Operation, Asked)> {
        self.service.state().asked.clone()
    }

    pub fn count(&self, operation: Operation) -> usize {
        self.service.state().counts.get(&operation).copied().unwrap_or(0)
    }

    /// The manifest under a name.
    pub fn manifest(&self, repository: &str, version: &str) -> Option<Vec<u8>> {
        self.service
            .state()
            .manifests
            .get(&format!("/v2/{repository}/manifests/{version}"))
            .cloned()
    }

    pub fn has_no_manifest(&self) -> bool {
        self.service.state().manifests.is_empty()
    }

    /// Stores a manifest or a blob as if it had been pushed.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let mut state = self.service.state();
        match path.contains("/manifests/") {
            true => state.manifests.insert(path.to_owned(), bytes.to_vec()),
            false => state.blobs.insert(sha256(bytes), bytes.to_vec()),
        };
    }
}

fn operation_of(asked: &Asked) -> Operation {
    let path = asked.path();
    match asked.method.as_str() {
        "HEAD" if path.contains("/blobs/") => Operation::LookForBlob,
        "GET" if path.contains("/blobs/") => Operation::GetBlob,
        "POST" if path.ends_with("/blobs/uploads/") => Operation::BeginUpload,
        "PUT" if path.contains("/uploads/") => Operation::Upload,
        "PUT" if path.contains("/manifests/") => Operation::PutManifest,
        "HEAD" if path.contains("/manifests/") => Operation::LookForManifest,
        "GET" if path.contains("/manifests/") => Operation::GetManifest,
        _ if path.starts_with("/token") => Operation::Token,
        _ => Operation::Other,
    }
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

impl Service for Memory {
    fn fault(&self, asked: &Asked) -> Option<Fault> {
        let operation = operation_of(asked);
        let before = {
            let mut state = self.state();
            state.asked.push((operation, asked.clone()));
            let count = state.counts.entry(operation).or_default();
            *count += 1;
            let before = *count - 1;
            if operation == Operation::Upload && !state.used.insert(asked.path().to_owned()) {
                return Some(Fault::Answer(
                    Answer::new(416)
                        .body(r#"{"errors":[{"code":"BLOB_UPLOAD_INVALID","message":"used"}]}"#),
                ));
            }
            before
        };
        (self.script)(asked, operation, before)
    }

    fn answer(&self, asked: &Asked, body: &[u8]) -> Answer {
        let mut state = self.state();
        let last = asked.path().rsplit('/').next().unwrap_or_default().to_owned();
        match operation_of(asked) {
            Operation::LookForBlob | Operation::GetBlob => match state.blobs.get(&last) {
                Some(blob) => Answer::new(200).body(blob.clone()),
                None => error(404, "BLOB_UNKNOWN"),
            },
            Operation::BeginUpload => {
                state.sessions += 1;
                Answer::new(202)
                    .with("location", format!("{}{}?_state=a%3Db", asked.path(), state.sessions))
            }
            Operation::Upload => {
                let digest = sha256(body);
                if asked.parameter("digest") != Some(&digest) {
                    return error(400, "DIGEST_INVALID");
                }
                state.blobs.insert(digest.clone(), body.to_vec());
                Answer::new(201).with("docker-content-digest", digest)
            }
            Operation::PutManifest => state.put_manifest(asked.path(), body),
            Operation::LookForManifest | Operation::GetManifest => {
                match state.manifests.get(asked.path()) {
                    Some(manifest) => {
                        let answer = Answer::new(200)
                            .with("docker-content-digest", sha256(manifest))
                            .body(manifest.clone());
                        answer.with("content-type", "application/vnd.oci.image.manifest.v1+json")
                    }
                    None => error(404, "MANIFEST_UNKNOWN"),
                }
            }
            Operation::Token | Operation::Other => error(404, "UNKNOWN"),
        }
    }
}

impl State {
    /// Stores a manifest only if all of its blobs are there.
    fn put_manifest(&mut self, path: &str, body: &[u8]) -> Answer {
        let manifest: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let layers =
            manifest["layers"].as_array().into_iter().flatten().chain([&manifest["config"]]);
        if !layers.clone().all(|blob| {
            blob["digest"].as_str().is_some_and(|digest| self.blobs.contains_key(digest))
        }) {
            return error(400, "MANIFEST_BLOB_UNKNOWN");
        }
        self.manifests.insert(path.to_owned(), body.to_vec());
        Answer::new(201).with("docker-content-digest", sha256(body))
    }
}

pub fn error(status: u16, code: &str) -> Answer {
    Answer::new(status)
        .body(format!(r#"{{"errors":[{{"code":"{code}","message":"says the registry"}}]}}"#))
}
