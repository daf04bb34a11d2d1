//! Volumes that kubelet mounts into a pod: the module's image, and laststream's static program.
//! Other files place these parts.

use laststream_base::yaml::{List, Map};
use laststream_policy::file::Job;
use laststream_policy::{
    FRAMES_FOLDER, MODULE_FOLDER, ModuleLocation, Policy, PolicyProblem, Resolve,
};

/// The program's folder in the proxy's container.
const PROGRAM_FOLDER: &str = "/opt/laststream-program";
/// The program's folder in the container of a Job.
pub(super) const JOB_FOLDER: &str = "/opt/laststream";
/// The program in a separate image.
const PROGRAM: &str = "/laststream";

/// A volume of the pod, and its place in the proxy's container.
pub(super) struct Volume {
    pub(super) name: &'static str,
    /// The volume's kind, such as `image`, and its settings.
    source: (&'static str, Map),
    pub(super) path: &'static str,
    reference: String,
}

impl Volume {
    /// The module's image; `None` where the proxy has the module from elsewhere.
    pub(super) fn of_module(source: &ModuleLocation) -> Option<Self> {
        Self::of_image(source, "laststream-module", MODULE_FOLDER)
    }

    /// The images of the module, and of the frame filter's module if the policy has WebSockets.
    pub(super) fn of_modules(
        policy: &Policy,
        resolve: Resolve<'_>,
    ) -> Result<Vec<Self>, PolicyProblem> {
        let frames = policy.frames_source(resolve)?;
        let frames =
            frames.and_then(|source| Self::of_image(&source, "laststream-frames", FRAMES_FOLDER));
        let module = Self::of_module(&policy.source(resolve)?);
        Ok(module.into_iter().chain(frames).collect())
    }

    fn of_image(source: &ModuleLocation, name: &'static str, path: &'static str) -> Option<Self> {
        let ModuleLocation::Mounted { reference, tag, .. } = source else { return None };
        let image = match tag {
            Some(tag) => Map::new().note(format!("The tag {tag}, pinned.")),
            None => Map::new(),
        };
        // For a reference by digest, `IfNotPresent` is also the default. It is written out, because
        // the default for a tag `latest` is another.
        let image = image.with("reference", reference.as_str()).with("pullPolicy", "IfNotPresent");
        let source = ("image", image);
        Some(Self { name, source, path, reference: reference.clone() })
    }

    /// The image's reference; empty for another kind of volume.
    pub(super) fn reference(&self) -> &str {
        &self.reference
    }

    pub(super) fn item(&self) -> Map {
        let (kind, settings) = &self.source;
        Map::of("name", self.name).with(*kind, settings.clone())
    }

    pub(super) fn mount(&self) -> Map {
        Map::of("name", self.name).with("mountPath", self.path).with("readOnly", true)
    }
}

/// laststream's static program in a container whose image need not know of it. An init container
/// copies it: CRI-O mounts image volumes without the right to execute files (`noexec`).
pub(super) struct Program<'a> {
    image: &'a str,
    /// The program in that image.
    source: &'a str,
    /// The name of the init container and of the volume.
    name: &'static str,
    folder: &'static str,
}

impl<'a> Program<'a> {
    /// The program for the proxy's container, if the policy has an image of it.
    pub(super) fn of(policy: &'a Policy) -> Option<Self> {
        let image = policy.file.program_image.as_deref()?;
        let (source, name) = (PROGRAM, "laststream-program");
        Some(Self { image, source, name, folder: PROGRAM_FOLDER })
    }

    /// The program for the container of a Job.
    pub(super) fn of_job(job: &'a Job) -> Self {
        let source = job.program.as_deref().unwrap_or(PROGRAM);
        Self { image: &job.program_image, source, name: "laststream", folder: JOB_FOLDER }
    }

    /// The program's folder in the proxy's container.
    pub(super) fn folder() -> &'static str {
        PROGRAM_FOLDER
    }

    /// The program's path in the proxy's container.
    pub(super) fn path() -> String {
        format!("{PROGRAM_FOLDER}/laststream")
    }

    /// The program's volume, which the init container fills.
    pub(super) fn volume(&self) -> Volume {
        let source = ("emptyDir", Map::new());
        Volume { name: self.name, source, path: self.folder, reference: String::new() }
    }

    pub(super) fn init_container(&self) -> Map {
        let mount = Map::of("name", self.name).with("mountPath", self.folder);
        let command = List::of(self.source).item("install").item(self.folder);
        self.container(self.name, command).with("volumeMounts", List::of(mount))
    }

    /// A container of the program's image.
    pub(super) fn container(&self, name: &str, command: List) -> Map {
        Map::of("name", name)
            .note("The hook's image of a release, or any other with its program.")
            .with("image", self.image)
            .with("command", command)
            .note("What a namespace with restricted pods wants.")
            .with("securityContext", restricted())
    }
}

fn restricted() -> Map {
    Map::of("allowPrivilegeEscalation", false)
        .with("capabilities", Map::of("drop", List::of("ALL")))
        .with("readOnlyRootFilesystem", true)
        .with("runAsNonRoot", true)
        .note(
            "On OpenShift leave this line out: by default each namespace has a range of user IDs.",
        )
        .with("runAsUser", 65_532_u64)
        .with("seccompProfile", Map::of("type", "RuntimeDefault"))
}
