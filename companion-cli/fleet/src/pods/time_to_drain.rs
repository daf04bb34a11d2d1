//! The time that streams have when a pod ends, from its stop hook or the time that Istio's agent
//! waits, and its grace period. Pure.

use laststream_assess::{Proxy, ProxyKind, Stop};
use laststream_base::pods::ISTIO_PROXY;

use crate::pods::facts::PodFacts;
use crate::pods::hook::Hook;

/// The time that a pod's streams have after its deletion, and a warning if it is too short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The longest time, in seconds, that streams have after the deletion.
    pub(crate) seconds: u64,
    /// Why the time is too short, if it is.
    pub(crate) warning: Option<String>,
}

/// The bound that the pod's stop hook and grace period set.
pub(crate) fn bound(pod: &PodFacts) -> Bound {
    let grace = pod.grace;
    let of = |seconds: u64, warning: Option<String>| Bound { seconds, warning };
    match pod.hook {
        Hook::Missing => without_hook(pod),
        Hook::Other => of(grace, Some("its proxy's stop hook does not ask the gate".to_owned())),
        Hook::Untimed => of(grace, None),
        Hook::Within(hook) if hook >= grace => of(
            grace,
            Some(format!(
                "its stop may take {hook} s, and its grace period ends after {grace} s: \
                 what is in flight then is cut"
            )),
        ),
        Hook::Within(hook) => of(hook, None),
    }
}

/// The bound of a pod whose proxy has no stop hook.
fn without_hook(pod: &PodFacts) -> Bound {
    let kind = match pod.proxy.as_deref() {
        Some(ISTIO_PROXY) if pod.is_native => ProxyKind::NativeSidecar,
        Some(ISTIO_PROXY) => ProxyKind::ClassicSidecar, // a gateway's agent does the same
        _ => ProxyKind::PlainEnvoy,
    };
    let Stop { ended_by, cut, .. } = Stop::of(&Proxy { grace: Some(pod.grace), ..Proxy::of(kind) });
    let seconds = cut.millis / 1000;
    let warning = format!(
        "its proxy has no stop hook: what takes longer than {seconds} s is cut ({ended_by})"
    );
    Bound { seconds, warning: (kind != ProxyKind::NativeSidecar).then_some(warning) }
}

/// The lines to print before pods are deleted: one line for all pods with the same bound and grace
/// period.
pub(crate) fn beforehand(pods: &[PodFacts]) -> Vec<String> {
    let mut alike: Vec<(Bound, u64, Vec<&str>)> = Vec::new();
    for pod in pods.iter().filter(|pod| pod.proxy.is_some()) {
        let bound = bound(pod);
        match alike.iter_mut().find(|(other, grace, _)| *other == bound && *grace == pod.grace) {
            Some((_, _, names)) => names.push(&pod.name),
            None => alike.push((bound, pod.grace, vec![&pod.name])),
        }
    }
    let line = |(bound, grace, names): &(Bound, u64, Vec<&str>)| {
        let pods = match names.as_slice() {
            [name] => format!("pod/{name}"),
            names => format!("{} pods", names.len()),
        };
        match &bound.warning {
            Some(warning) => format!("{pods}: {warning}"),
            None => format!(
                "{pods}: streams have {} s after the deletion, and the grace period of {grace} s \
                 suffices for that",
                bound.seconds
            ),
        }
    };
    alike.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, hook: Hook, grace: u64) -> PodFacts {
        let proxy = Some("istio-proxy".to_owned());
        PodFacts { name: name.into(), hook, grace, proxy, ..PodFacts::default() }
    }

    #[test]
    fn a_hook_must_end_before_the_grace_period() {
        for (hook, grace, seconds, is_short) in [
            (Hook::Missing, 30, 5, true),
            (Hook::Missing, 3, 3, true),
            (Hook::Other, 30, 30, true),
            (Hook::Untimed, 30, 30, false),
            (Hook::Within(24), 30, 24, false),
            (Hook::Within(24), 24, 24, true),
            (Hook::Within(60), 30, 30, true),
        ] {
            let bound = bound(&pod("a", hook, grace));
            assert_eq!((bound.seconds, bound.warning.is_some()), (seconds, is_short), "{hook:?}");
        }
    }

    #[test]
    fn without_a_hook_the_kind_of_the_proxy_decides() {
        let classic = pod("a", Hook::Missing, 30);
        let native = PodFacts { is_native: true, ..classic.clone() };
        let plain = PodFacts { proxy: Some("envoy".to_owned()), ..classic.clone() };
        for (pod, seconds, is_short) in [(classic, 5, true), (native, 30, false), (plain, 0, true)]
        {
            let bound = bound(&pod);
            assert_eq!((bound.seconds, bound.warning.is_some()), (seconds, is_short), "{pod:?}");
        }
    }

    #[test]
    fn pods_that_are_alike_are_one_line() {
        let pods = [
            pod("a", Hook::Within(24), 30),
            pod("b", Hook::Within(24), 30),
            pod("c", Hook::Missing, 30),
            PodFacts { proxy: None, ..pod("d", Hook::Missing, 30) },
            pod("e", Hook::Within(60), 30),
        ];
        let lines = beforehand(&pods);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("2 pods: streams have 24 s"), "{lines:?}");
        assert!(lines[1].starts_with("pod/c: its proxy has no stop hook"), "{lines:?}");
        let longer = "pod/e: its stop may take 60 s, and its grace period ends after 30 s";
        assert!(lines[2].starts_with(longer), "{lines:?}");
    }
}
