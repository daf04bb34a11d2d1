//! The tags that a push moves from another image.

use laststream_module::analysis::Kind;
use laststream_module::inspect;
use laststream_oci::image::Reference;
use laststream_oci::registry::Registry;

use crate::commands::Printer;

/// Looks at the image that a tag points to before the push. Returns the reason to leave the tag
/// there: the image holds something else than the module that is pushed.
pub(super) fn look(
    (reference, registry): (&Reference, &Registry<'_>),
    kind: Kind,
    printer: &Printer,
) -> Option<String> {
    let found = inspect::image(registry, reference).map(|found| found.module);
    let held = match found {
        Ok(Some(module)) if module.kind == kind => None,
        Ok(Some(module)) => Some(module.kind.to_string()),
        Ok(None) => Some("no module of laststream".to_owned()),
        Err(error) => {
            printer.warning(&format!("`{reference}` cannot be looked at: {error}"));
            None
        }
    };
    held.map(|held| format!("`{reference}` holds {held}, and this push has {kind}"))
}
