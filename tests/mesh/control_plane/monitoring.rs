//! C3: the API server with the CRDs of the Prometheus operator and of KEDA, and `lint --crds`,
//! check the files of envoyfilter-manifests/monitoring.

use super::world::World;
use crate::parts::part;
use crate::seen::row;
use kit::prelude::*;
use kit::user::User;

/// For each file, a value in it and a value that its CRD refuses.
const DAMAGES: [(&str, &str, &str); 4] = [
    ("podmonitor.yaml", "interval: 5s", "interval: soon"),
    ("podmonitor.envoy-gateway.yaml", "interval: 5s", "interval: soon"),
    ("prometheusrule.yaml", "for: 5m", "for: soon"),
    ("scaledobject.yaml", "minReplicaCount: 2", "minReplicaCount: two"),
];

pub(super) async fn objects() -> Outcome {
    let cluster = &World::get().await?.cluster;
    let crds = part("monitoring-crds")?.to_str().context("a path in UTF-8")?;
    cluster.definitions_of(crds).await?;
    let user = User::new()?;
    for (file, good, bad) in DAMAGES {
        let folder = kit::workspace().join("envoyfilter-manifests/monitoring");
        // Only namespaces that are there can have objects.
        let text =
            std::fs::read_to_string(folder.join(file))?.replace("istio-ingress\n", "default\n");
        ensure!(text.contains(good), "{file} has no `{good}`");
        let damaged = text.replace(good, bad);
        for (text, is_good) in [(text, true), (damaged, false)] {
            let create = ["create", "--dry-run=server", "--validate=strict", "--filename=-"];
            let said = cluster.kubectl_with(&create, &text).await?;
            ensure_eq!(said.code == Some(0), is_good, "{file}: {}", said.stderr);
            user.file(file, text)?;
            let lint = user.run(&["lint", "--crds", crds, file], "")?;
            if is_good {
                lint.expect(0)?;
            } else {
                lint.expect(1)?.stdout_contains("LS008")?;
            }
        }
        row(
            "C3",
            format!("{file}, and with `{bad}`"),
            "accepted, and refused, by the API server and lint",
        );
    }
    Ok(())
}
