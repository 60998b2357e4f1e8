//! Instruction sets: those of the machine, detected once, and tokens that prove them.
//!
//! A kernel's functions take the token of their instruction set by value. Only detection creates a
//! token, so holding one proves that the instructions exist. [`compiled`] and [`operations`] define
//! a token's functions with the instructions that it proves. [`load`] and [`store`] move vectors
//! from and to memory.

#[cfg(target_arch = "x86_64")]
mod x86;

use std::fmt;

use bytemuck::{Pod, bytes_of, cast_slice, cast_slice_mut, pod_read_unaligned};

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{compiled, enabled, operations, or_vector};

/// A family of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Instructions that the compilation target guarantees: SSE2 on x86-64.
    Portable,
    /// AVX2 on x86-64.
    Avx2,
    /// AVX-512 F, BW and VNNI on x86-64.
    Avx512,
}

impl Isa {
    /// Returns the instruction sets of this machine, slowest first.
    pub fn available() -> Vec<Self> {
        let mut available = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            available.extend(Avx2::detect().map(|_| Self::Avx2));
            available.extend(Avx512::detect().map(|_| Self::Avx512));
        }
        available
    }

    /// Returns the name in reports: `portable`, `avx2`, `avx512`.
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

/// `N` lanes as an array, which the compiler keeps in the target's vectors. This token needs no
/// proof.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable<const N: usize>;

/// SSE2, which every x86-64 processor has.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sse2;

/// Proof that the machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// Returns the proof if the processor and the system have AVX2.
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

/// Proof that the machine has AVX-512 F, BW and VNNI.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// Returns the proof if the processor and the system support these instructions.
    pub(crate) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni"))
        .then_some(Self(()))
    }
}

/// Instruction set found on this machine, with its proof.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Found {
    /// Returns an instruction set with its proof if this machine has it.
    pub(crate) fn detect(isa: Isa) -> Option<Self> {
        match isa {
            Isa::Portable => Some(Self::Portable),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::detect().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::detect().map(Self::Avx512),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => None,
        }
    }

    /// Returns the instruction set without its proof.
    pub(crate) fn isa(self) -> Isa {
        match self {
            Self::Portable => Isa::Portable,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => Isa::Avx512,
        }
    }
}

/// Evaluates an expression with `$token` bound to the token of a detected instruction set;
/// `$portable` is the token for the target's own instructions. Generic code is compiled once for
/// each.
macro_rules! with_token {
    ($found:expr, $portable:expr, $token:ident => $operation:expr) => {
        match $found {
            $crate::isa::Found::Portable => {
                let $token = $portable;
                $operation
            }
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Found::Avx2($token) => $operation,
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Found::Avx512($token) => $operation,
        }
    };
}
pub(crate) use with_token;

/// Loads a vector from the first words of a slice.
///
/// # Panics
/// Panics if there are fewer words than in a vector.
#[inline(always)]
pub(crate) fn load<V: Pod, W: Pod>(words: &[W]) -> V {
    pod_read_unaligned(cast_slice(&words[..size_of::<V>() / size_of::<W>()]))
}

/// Stores a vector to the first words of a slice.
///
/// # Panics
/// Panics if there are fewer words than in a vector.
#[inline(always)]
pub(crate) fn store<V: Pod, W: Pod>(vector: V, words: &mut [W]) {
    cast_slice_mut(&mut words[..size_of::<V>() / size_of::<W>()]).copy_from_slice(bytes_of(&vector));
}
