//! The filters and listeners that run a module.

use crate::wasm_filter::Module;
use manifest_lint::{Inputs, Node, address, listener};

/// The most filters that run one module; those of its own resource come first. More of one name on
/// one proxy would not add information, and the work would grow with the square of the files.
const MOST_USES: usize = 32;

/// The filters that run a module: the module's own filter, or those that subscribe to its extension
/// configuration by name.
pub(super) fn uses<'g>(inputs: &'g Inputs, module: Module<'g>) -> Vec<Node<'g>> {
    if module.extension().is_none() {
        return vec![module.filter()];
    }
    let reach = module.reach();
    let filters = |own: bool| {
        inputs
            .waiting_for(module.name())
            .filter(move |(_, other)| reach.is_of_resource(other) == own && reach.may_meet(other))
    };
    filters(true).chain(filters(false)).map(|(filter, _)| filter).take(MOST_USES).collect()
}

/// The listeners that run a module.
pub(super) fn listeners<'g>(
    inputs: &'g Inputs,
    module: Module<'g>,
) -> impl Iterator<Item = Node<'g>> {
    uses(inputs, module).into_iter().filter_map(listener)
}

/// The addresses and ports of the listeners that run a module.
pub(super) fn addresses<'g>(
    inputs: &'g Inputs,
    module: Module<'g>,
) -> impl Iterator<Item = (Node<'g>, u64)> {
    listeners(inputs, module).filter_map(address)
}

/// The ports of the listeners that run a module.
pub(super) fn ports(inputs: &Inputs, module: Module<'_>) -> Vec<u64> {
    addresses(inputs, module).map(|(_, port)| port).collect()
}
