//! Retries at the caller's side: a second line, not a replacement for the gate.

use super::files::{File, objects};
use super::objects::{metadata, object};
use laststream_base::yaml::{List, Map};
use laststream_policy::{Policy, PolicyProblem};

pub(super) fn render(policy: &Policy) -> Result<File, PolicyProblem> {
    let Some(retries) = &policy.file.retries else {
        return Err(PolicyProblem::new(
            "retries",
            "is required for a VirtualService: write `retries: {host: NAME}`",
        ));
    };
    let per_try = retries.per_try_timeout.unwrap_or(policy.sizing.longest_request);
    let retry = Map::of("attempts", retries.attempts.unwrap_or(2))
        .note(
            "Each try by itself; shorter than the longest request it would repeat work that \
            still runs. If a response has not begun by then, the caller gets 504, also where \
            Istio had no time-out: for slower requests write `drain.longest_request` into the \
            policy.",
        )
        .with("perTryTimeout", per_try.to_string())
        .note(
            "What the app has never seen, unless the policy says otherwise: anything more \
            repeats requests that may already have had an effect.",
        )
        .with("retryOn", retries.retry_on.as_deref().unwrap_or("connect-failure,refused-stream"));
    let destination = Map::of("destination", Map::of("host", retries.host.as_str()));
    let route = Map::of("route", List::of(destination)).with("retries", retry);
    let spec = Map::of("hosts", List::of(retries.host.as_str())).with("http", List::of(route));
    let metadata = metadata(policy, &policy.name);
    let object = object("networking.istio.io/v1", "VirtualService", metadata, spec);
    let about = ["Retries hide what a drain loses, and cannot help when the last pod goes. The \
        gate loses nothing; this is for what comes in between."
        .to_owned()];
    Ok(objects("virtualservice.yaml", &about, &[object]))
}
