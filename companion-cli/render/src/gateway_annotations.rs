//! The annotations of a Gateway, which Istio copies to the pods that it makes: in place of an
//! overlay, where the pods need nothing else.

use super::files::File;
use super::objects::gateway_patch;
use super::overlay;
use super::placement::Facts;
use super::proxy_config::{self, REPLACES, START};
use laststream_base::yaml::Map;
use laststream_policy::Policy;

/// The patch of the Gateway; `None` if it needs none, or an overlay.
pub(super) fn render(policy: &Policy, place: &Facts<'_>) -> Option<File> {
    let gateway = place.gateway.filter(|_| place.overlay.is_some())?;
    if overlay::is_needed(policy, place) {
        return None;
    }
    let annotations = Map::of("annotations", proxy_config::gateway_annotations(policy)?);
    let about = [START.to_owned(), REPLACES.to_owned()];
    Some(gateway_patch(policy, gateway, &about, annotations))
}
