//! Instruction sets: what the machine has, found once, and tokens that prove it.
//!
//! A kernel's functions take the token of their instruction set by value. A token can only be made by
//! detection, so holding one is the proof that the instructions exist, and the `unsafe` of every intrinsic
//! rests on it.

use std::fmt;

/// A family of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Whatever the compilation target guarantees: SSE2 on x86-64.
    Portable,
    /// AVX2 on x86-64.
    Avx2,
    /// AVX-512 F, BW and VNNI on x86-64.
    Avx512,
}

impl Isa {
    /// The instruction sets of this machine, slowest first.
    pub fn available() -> Vec<Self> {
        let mut available = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            available.extend(Avx2::detect().map(|_| Self::Avx2));
            available.extend(Avx512::detect().map(|_| Self::Avx512));
        }
        available
    }

    /// The name in reports: `portable`, `avx2`, `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// SSE2, which the x86-64 target itself proves.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sse2;

/// The token of [`Isa::Portable`].
#[cfg(target_arch = "x86_64")]
pub(crate) const PORTABLE: Sse2 = Sse2;
/// The token of [`Isa::Portable`].
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const PORTABLE: crate::fold::plain::Plain<4> = crate::fold::plain::Plain;

/// Proof that AVX2 is there.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// The proof, where the processor and the system have it.
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

/// Proof that AVX-512 F, BW and VNNI are there.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// The proof, where the processor and the system have it.
    pub(crate) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni"))
        .then_some(Self(()))
    }
}
