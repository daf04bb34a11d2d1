//! An Envoy without a mesh: a whole bootstrap, and patches of a Deployment that may run it.

use std::net::SocketAddr;

use super::facts::{Facts, Form, Leaves, Listeners, NO_ANNOTATIONS, OwnPod, PodFile};
use crate::deployment::Deployment;
use crate::files::other;
use crate::hook::{self, pod_with_grace};
use crate::image_volume::{UPDATE, WHERE, WHY_SECRET, pull_secrets};
use crate::kind::{HookPlace, misplaced};
use crate::program::{admin_of, sidecar};
use crate::volume::{Program, Volume};
use laststream_base::env_vars::LASTSTREAM_SECRET;
use laststream_base::yaml::{List, Map};
use laststream_policy::file::GateSecret;
use laststream_policy::placement::PlainEnvoy;
use laststream_policy::{Policy, PolicyProblem};

pub(super) fn facts<'p>(place: &'p PlainEnvoy, policy: &'p Policy) -> Facts<'p> {
    // The address was checked when the policy was read.
    let address = place.listen.as_deref().and_then(|text| text.parse::<SocketAddr>().ok());
    Facts {
        form: Form::Envoy(place),
        no_envoyfilter: Some("an Envoy without a mesh knows no EnvoyFilters: `render envoy`"),
        plugin_gate: Err("an Envoy without a mesh knows no WasmPlugins: `render envoy`"),
        selector: None,
        targets: None,
        gateway: None,
        overlay: None,
        pod: Ok(place),
        hook: policy.file.program_image.is_some().then_some(HookPlace::Pod),
        native_sidecar: None,
        vm_id: Some("laststream".into()),
        listeners: Ok(Listeners::Edge(address.map_or(0, |address| address.port()))),
        no_composite: None,
        leaves: Leaves::Connection,
    }
}

impl OwnPod for PlainEnvoy {
    fn lifecycle(&self, policy: &Policy, port: u16, home: HookPlace) -> PodFile {
        let Some(program) = Program::of(policy).filter(|_| home == HookPlace::Pod) else {
            return Err(PolicyProblem::new(
                "program_image",
                "is required for the hook of an Envoy without a mesh, whose image has no program \
                    that could ask the gate; it has one home, `--for pod`",
            ));
        };
        if let Some(GateSecret::Environment(name)) = &policy.file.gate.secret
            && name != LASTSTREAM_SECRET
        {
            return Err(PolicyProblem::new(
                "gate.secret.environment",
                format!("the program in the hook reads `{LASTSTREAM_SECRET}`: take that name"),
            ));
        }
        let why = "One second above the gate's deadline.";
        let exec = hook::by_program(List::new(), port, why, policy);
        let volume = program.volume();
        let container = container()
            .with("volumeMounts", List::of(volume.mount()))
            .with("lifecycle", Map::of("preStop", Map::of("exec", exec)));
        let gate = policy.is_program().then(|| sidecar(policy, &program, port, admin_of(self)));
        let before = [program.init_container()].into_iter().chain(gate).collect::<List>();
        let pod = pod_with_grace(policy)
            .with("volumes", List::of(volume.item()))
            .with("initContainers", before)
            .with("containers", List::of(container));
        let deployment = deployment(policy);
        let about = [format!(
            "{}. Envoy's own image has no program that could ask the gate, so laststream's comes \
                with it.",
            deployment.how_to_patch("lifecycle.pod.yaml")
        )];
        Ok(other("lifecycle.pod.yaml", &about, deployment.patch(Map::of("spec", pod))))
    }

    fn proxy_config(&self, _: &Policy, _: Map) -> PodFile {
        misplaced(NO_ANNOTATIONS)
    }

    fn image_volume(&self, policy: &Policy, volumes: &[Volume]) -> PodFile {
        let container =
            container().with("volumeMounts", volumes.iter().map(Volume::mount).collect::<List>());
        let pod = Map::new()
            .note(WHY_SECRET)
            .with_some("imagePullSecrets", pull_secrets(policy))
            .with("volumes", volumes.iter().map(Volume::item).collect::<List>())
            .with("containers", List::of(container));
        let deployment = deployment(policy);
        let how = deployment.how_to_patch("image-volume.yaml");
        let about = [format!("{how}."), UPDATE.to_owned(), WHERE.to_owned()];
        Ok(other("image-volume.yaml", &about, deployment.patch(Map::of("spec", pod))))
    }

    fn steps(&self, _: &Policy, _: &[String]) -> Vec<String> {
        Vec::new()
    }
}

fn deployment(policy: &Policy) -> Deployment<'_> {
    Deployment { name: &policy.name, namespace: policy.namespace.as_deref() }
}

fn container() -> Map {
    Map::new().note("The name of Envoy's container.").with("name", "envoy")
}
