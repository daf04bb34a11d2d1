//! The commands that apply a rendered folder.

use super::{GATEWAY_PATCH, Rendered, in_namespace, lifecycle, patch_gateway};
use laststream_policy::Policy;
use laststream_policy::file::{GatewayApi, Placement, Waypoint};

/// Files with values of Istio's gateway chart, or patches of a sidecar's Deployment.
const OF_THE_POD: [&str; 5] = [
    "lifecycle.gateway-chart.yaml",
    "lifecycle.native-sidecar.yaml",
    "lifecycle.pod.yaml",
    "image-volume.yaml",
    "proxy-config.yaml",
];

/// The commands, in their order, for files that were written into this folder.
#[must_use]
pub fn next_steps(policy: &Policy, rendered: &Rendered, folder: &str) -> Vec<String> {
    let has = |name: &str| rendered.files.iter().any(|file| file.name == name);
    let path = |name: &str| format!("{folder}/{name}");
    let mut steps = vec![format!("laststream lint {folder}")];
    if has("kustomization.yaml") {
        steps.push(format!("kubectl apply --kustomize {folder}"));
    }
    let of_the_pod: Vec<String> =
        OF_THE_POD.into_iter().filter(|name| has(name)).map(path).collect();
    match &policy.placement {
        Placement::Gateway(_) if !of_the_pod.is_empty() => steps.push(format!(
            "helm upgrade --wait{} RELEASE istio/gateway --version CHART_VERSION --reuse-values \
                --values {}",
            in_namespace(policy.namespace.as_deref()),
            of_the_pod.join(" --values ")
        )),
        Placement::Sidecar(_) => {
            steps.extend(of_the_pod.iter().map(|file| lifecycle::patch_command(policy, file)));
        }
        Placement::GatewayApi(GatewayApi { gateway: Some(gateway), .. })
        | Placement::Waypoint(Waypoint { gateway: Some(gateway), .. })
            if has(GATEWAY_PATCH) =>
        {
            steps.push(patch_gateway(policy, gateway, &path(GATEWAY_PATCH)));
        }
        Placement::EnvoyGateway(of) if has(GATEWAY_PATCH) => {
            steps.push(patch_gateway(policy, &of.gateway, &path(GATEWAY_PATCH)));
        }
        _ => {}
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::next_steps;
    use crate::tests::policy;
    use crate::{Kind, render};

    #[test]
    fn every_command_has_the_names_of_the_policy() {
        for (placement, expected) in [
            (
                "{gateway: {}}",
                "kubectl apply --kustomize out\n\
                 helm upgrade --wait --namespace shop RELEASE istio/gateway --version \
                 CHART_VERSION --reuse-values --values out/lifecycle.gateway-chart.yaml --values \
                 out/proxy-config.yaml",
            ),
            (
                "{sidecar: {native: true, workload: web}}",
                "kubectl apply --kustomize out\n\
                 kubectl --namespace shop patch deployment web --patch-file \
                 out/lifecycle.native-sidecar.yaml\n\
                 kubectl --namespace shop patch deployment web --patch-file out/proxy-config.yaml",
            ),
            (
                "{gateway_api: {gateway: g}}",
                "kubectl apply --kustomize out\n\
                 kubectl --namespace shop patch gateway g --type merge --patch-file \
                 out/gateway.patch.yaml",
            ),
        ] {
            let policy =
                policy(&format!("namespace: shop\nmodule: /a.wasm\nplacement: {placement}\n"));
            let rendered = render(Kind::All, &policy, &|_, _| Err("unasked".into())).unwrap();
            let steps = next_steps(&policy, &rendered, "out").join("\n");
            assert_eq!(steps, format!("laststream lint out\n{expected}"), "{placement}");
        }
    }
}
