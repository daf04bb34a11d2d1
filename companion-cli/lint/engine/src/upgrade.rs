//! Steps from one version of a program to another, as `lint --upgrade` gets them.

use std::str::FromStr;

use manifest_text::versions::{Release, UPGRADES, WITH_ENVOY, release, text};

pub const ISTIO: &str = "istio";
pub const ENVOY: &str = "envoy";
pub const ENVOY_GATEWAY: &str = "envoy-gateway";
pub const KUBERNETES: &str = "kubernetes";

/// A step from one version to a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The program, by its name in [`UPGRADES`].
    pub program: &'static str,
    pub from: Release,
    pub to: Release,
}

impl Step {
    /// The step of this program, also that of the Envoy in another one.
    fn of(self, program: &str) -> Option<Self> {
        if self.program == program {
            return Some(self);
        }
        let (_, distance) = WITH_ENVOY.into_iter().find(|(name, _)| *name == self.program)?;
        let inside = |(major, minor): Release| (major, minor + distance);
        let step = Self { program: ENVOY, from: inside(self.from), to: inside(self.to) };
        (program == ENVOY).then_some(step)
    }

    /// Whether the step leads to a change of a program that came with this release. A change
    /// without one comes with each step.
    pub fn covers(self, program: &str, since: Option<Release>) -> bool {
        self.of(program)
            .is_some_and(|step| since.is_none_or(|since| step.from < since && since <= step.to))
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        const FORM: &str = "write PROGRAM=FROM:TO, such as istio=1.30:1.31";
        let (program, versions) = given.split_once('=').ok_or(FORM)?;
        let (from, to) = versions.split_once(':').ok_or(FORM)?;
        let upgrade = UPGRADES.into_iter().find(|(name, ..)| *name == program);
        let (program, oldest, newest) = upgrade.ok_or_else(|| {
            let names = UPGRADES.map(|(name, ..)| name).join(", ");
            format!("`{program}` is not known: write one of {names}")
        })?;
        let supported = |version: &str| {
            let release = release(version)?;
            let range = format!("{program} {} to {} are known", text(oldest), text(newest));
            if (oldest..=newest).contains(&release) { Ok(release) } else { Err(range) }
        };
        let (from, to) = (supported(from)?, supported(to)?);
        if from >= to {
            return Err(format!("{} is not older than {}", text(from), text(to)));
        }
        Ok(Self { program, from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_leads_from_a_known_version_to_a_newer_one() {
        let step = Step { program: "istio", from: (1, 29), to: (1, 31) };
        assert_eq!("istio=1.29:1.31.0".parse(), Ok(step));
        for (text, why) in [
            ("istio", "write PROGRAM=FROM:TO"),
            ("istio=1.30", "write PROGRAM=FROM:TO"),
            ("linkerd=1:2", "one of istio, envoy, envoy-gateway, kubernetes"),
            ("istio=1.30:1.99", "istio 1.28 to 1.31 are known"),
            ("istio=1.2:1.31", "istio 1.28 to 1.31 are known"),
            ("istio=new:1.31", "write major and minor"),
            ("istio=1.31:1.30", "1.31 is not older than 1.30"),
            ("istio=1.31:1.31", "is not older"),
        ] {
            let refused = text.parse::<Step>().expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn a_step_covers_the_envoy_inside() {
        let step = |text: &str| text.parse::<Step>().unwrap();
        for (text, program, since, is_covered) in [
            ("istio=1.30:1.31", ISTIO, Some((1, 31)), true),
            ("istio=1.30:1.31", ISTIO, Some((1, 30)), false),
            ("istio=1.30:1.31", ISTIO, None, true),
            ("istio=1.30:1.31", ENVOY, Some((1, 39)), true),
            ("istio=1.30:1.31", ENVOY, Some((1, 40)), false),
            ("envoy-gateway=1.9:1.10", ENVOY, Some((1, 40)), true),
            ("envoy=1.39:1.40", ISTIO, None, false),
            ("kubernetes=1.30:1.37", ENVOY, None, false),
        ] {
            assert_eq!(step(text).covers(program, since), is_covered, "{text} {program} {since:?}");
        }
    }
}
