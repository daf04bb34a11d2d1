//! What maps of Istio's ProxyConfig say of the end of a proxy.

use manifest_lint::Node;

pub(super) const DRAIN: &str = "terminationDrainDuration";
pub(super) const EXIT_ON_ZERO: &str = "EXIT_ON_ZERO_ACTIVE_CONNECTIONS";
pub(super) const MINIMUM: &str = "MINIMUM_DRAIN_DURATION";
/// Under this key Istio's charts have the defaults of their values.
pub(super) const CHART_DEFAULTS: &str = "_internal_defaults_do_not_set";

/// What the defaults of a mesh say of the end of a proxy.
pub(super) type Facts<'g> = [Option<&'g str>; 3];

pub(super) fn facts<'g>(configs: &[Node<'g>]) -> Facts<'g> {
    let drain = configs.iter().find_map(|config| config.field(DRAIN)?.text());
    let variable = |name| metadata(configs.iter().copied(), name);
    [drain, variable(EXIT_ON_ZERO), variable(MINIMUM)]
}

/// A variable in the `proxyMetadata` of the first of these maps that has it.
pub(super) fn metadata<'g>(
    mut configs: impl Iterator<Item = Node<'g>>,
    name: &str,
) -> Option<&'g str> {
    configs.find_map(|config| value(config.field("proxyMetadata")?, name))
}

/// A variable's value in a list of Kubernetes, or in a map.
pub(super) fn value<'g>(variables: Node<'g>, name: &str) -> Option<&'g str> {
    let item = variables.items().find(|item| item.text_of("name") == Some(name));
    item.map_or_else(|| variables.get(name), |item| item.get("value"))?.text()
}
