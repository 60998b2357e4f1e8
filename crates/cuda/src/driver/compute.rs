//! Compute capabilities.

/// Compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Compute {
    /// Major version: 9 of 9.0.
    pub major: u32,
    /// Minor version: 0 of 9.0.
    pub minor: u32,
}

impl Compute {
    /// First capability with copies to shared memory in the background. On Turing (7.5), whose
    /// kernels copy at once, a block has at most 64 KiB of shared memory.
    pub const AMPERE: Self = Self { major: 8, minor: 0 };
    /// Capability with warpgroup instructions for the tensor cores. Later capabilities lack these
    /// instructions.
    pub const WARPGROUPS: Self = Self { major: 9, minor: 0 };
}

impl std::fmt::Display for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
