//! The platforms of the released programs.

/// A platform, always Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// x86_64.
    Amd64,
    /// aarch64.
    Arm64,
}

impl Platform {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Rust's name of the target.
    #[must_use]
    pub fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Its name in images and in Kubernetes.
    #[must_use]
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The platform of this machine.
    pub(crate) fn of_this_machine() -> Option<Self> {
        Self::ALL.into_iter().find(|platform| platform.target().starts_with(std::env::consts::ARCH))
    }
}
