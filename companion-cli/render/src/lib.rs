//! Renders a policy as YAML for Istio, Envoy, Envoy Gateway and Helm, with comments that give
//! reasons.
//!
//! Rendering is pure: the same policy gives the same bytes. Only the digest of an image may have to
//! be asked for.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

pub mod bootstrap;
mod client_connection;
mod deployment;
mod envoy;
mod envoy_gateway;
mod envoy_proxy;
mod envoyfilter;
mod files;
mod gate;
mod gateway_annotations;
mod hook;
mod image_volume;
pub mod into;
mod job;
mod kind;
mod kustomization;
mod latch;
mod lifecycle;
pub mod local;
mod machine;
mod native;
mod next_steps;
mod objects;
pub mod output;
mod overlay;
mod parts;
mod placement;
mod program;
mod proxy_config;
mod scheme;
mod shown_request;
mod tcp;
mod virtualservice;
mod volume;
mod wasmplugin;
mod websockets;

pub use envoyfilter::IMAGE_ANNOTATION;
pub use files::{File, Rendered};
pub use hook::{fixed_options, question};
pub use kind::{HookPlace, Kind};
pub use next_steps::next_steps;

use kind::misplaced;
use laststream_policy::file::Delivery;
use laststream_policy::{Policy, PolicyProblem, Resolve};
use placement::{Facts, Form};

/// Renders a policy as files of this kind.
///
/// # Errors
/// This kind cannot provide what the policy asks for.
pub fn render(
    kind: Kind,
    policy: &Policy,
    resolve: Resolve<'_>,
) -> Result<Rendered, PolicyProblem> {
    let single = |file: File| Ok(vec![file].into());
    let place = placement::facts(policy);
    match kind {
        Kind::EnvoyFilter => envoyfilter::render(policy, resolve),
        Kind::WasmPlugin => single(wasmplugin::render(policy, &policy.source(resolve)?)?),
        Kind::Envoy => single(envoy::render(policy, resolve)?),
        Kind::EnvoyGateway => envoy_gateway::render(policy, resolve),
        Kind::Program => Ok(machine::files(policy)?.into()),
        Kind::Lifecycle => lifecycle(policy, place.hook.unwrap_or(HookPlace::Pod)),
        Kind::ProxyConfig => {
            let annotations = proxy_config::annotations(policy)?;
            if let Some(patch) = gateway_annotations::render(policy, &place) {
                return single(patch);
            }
            let pod = place.pod.or_else(|why| misplaced(why.proxy_config))?;
            single(pod.proxy_config(policy, annotations)?)
        }
        Kind::Statistics => single(envoyfilter::statistics::render(policy)?),
        Kind::ImageVolume => {
            let volumes = image_volume::volumes(policy, resolve)?;
            let pod = place.pod.or_else(|why| misplaced(why.image_volume))?;
            single(pod.image_volume(policy, &volumes)?)
        }
        Kind::Overlay => Ok(overlay::render(policy, resolve)?.into()),
        Kind::VirtualService => single(virtualservice::render(policy)?),
        Kind::Job => single(job::render(policy)?),
        Kind::All => all(policy, resolve),
    }
}

/// Renders the stop hook for this home.
///
/// # Errors
/// The placement has no use for a hook there.
pub fn lifecycle(policy: &Policy, home: HookPlace) -> Result<Rendered, PolicyProblem> {
    let port = hook::port(policy)?;
    let place = placement::facts(policy);
    let takes_values = place.form.kind() == Kind::EnvoyFilter;
    let hook = match place.pod {
        Ok(pod) => pod.lifecycle(policy, port, home)?,
        Err(_) if takes_values && home == HookPlace::HelmValues => {
            lifecycle::helm_values(policy, port)
        }
        Err(why) => return Err(why.lifecycle),
    };
    Ok(vec![hook].into())
}

/// The kinds that this policy uses.
fn kinds_of(policy: &Policy) -> Vec<Kind> {
    let place = placement::facts(policy);
    // A Job has no Deployment to patch, and no stop hook: its own command asks the gate.
    let has_job = policy.file.job.is_some();
    let patches_pod = !has_job && place.hook.is_some();
    let has_hook = policy.gate_port.is_some() && hook::has_hook(policy);
    let has_annotations = policy.placement.is_istio() && proxy_config::annotations(policy).is_ok();
    let patches_gateway = gateway_annotations::render(policy, &place).is_some();
    let mounts = policy.delivery == Delivery::ImageVolume && place.pod.is_ok();
    let optional = [
        (Kind::Overlay, overlay::is_needed(policy, &place)),
        (Kind::ImageVolume, mounts),
        (Kind::Lifecycle, patches_pod && has_hook),
        (Kind::ProxyConfig, patches_pod && has_annotations || patches_gateway),
        (Kind::VirtualService, policy.file.retries.is_some()),
        (Kind::Job, has_job),
    ];
    let optional = optional.into_iter().filter_map(|(kind, is_used)| is_used.then_some(kind));
    kind_of_form(policy, &place).into_iter().chain(optional).collect()
}

/// The file with the counters; the gate's own where it is a program, which has none.
fn kind_of_form(policy: &Policy, place: &Facts<'_>) -> Option<Kind> {
    match place.form {
        Form::Envoy(_) if policy.is_program() => Some(Kind::Program),
        Form::WasmPlugin if policy.is_program() => None,
        form => Some(form.kind()),
    }
}

/// All kinds that this policy uses, and a kustomization.
fn all(policy: &Policy, resolve: Resolve<'_>) -> Result<Rendered, PolicyProblem> {
    let mut all = Rendered::from(Vec::new());
    if hook::lacks_secret(policy) {
        all.warnings.push(format!("gate.secret: there is no stop hook: {}", hook::NO_HOOK));
    }
    for kind in kinds_of(policy) {
        let rendered = render(kind, policy, resolve)?;
        all.files.extend(rendered.files);
        all.warnings.extend(rendered.warnings);
    }
    all.files.extend(kustomization::render(&all.files));
    Ok(all)
}

#[cfg(test)]
mod tests;
