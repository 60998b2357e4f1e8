//! Instruction sets: what the machine has, found once, and tokens that prove it.
//!
//! A kernel's functions take the token of their instruction set by value. A token can only be made by
//! detection, so holding one is the proof that the instructions exist. [`compiled`] and [`operations`] write a token's
//! functions with the instructions that it proves; vectors come from memory by [`load`] and go there by [`store`].

#[cfg(target_arch = "x86_64")]
mod x86;

use std::fmt;

use bytemuck::{Pod, bytes_of, cast_slice, cast_slice_mut, pod_read_unaligned};

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{compiled, enabled, operations, or_vector};

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

/// `N` lanes as an array, which a compiler keeps in whatever vectors the target has: it needs no proof.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable<const N: usize>;

/// SSE2, which the x86-64 target itself proves.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sse2;

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

/// An instruction set that was found on this machine, with its proof.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Found {
    /// An instruction set, if this machine has it.
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

    /// Which it is.
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

/// Evaluates an expression with the token of an instruction set that was found under a name, `$portable` being the
/// token where the target's own instructions do: generic code is compiled once for each.
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

/// The vector that the first words of a slice are.
///
/// # Panics
/// If they are fewer than a vector's.
#[inline(always)]
pub(crate) fn load<V: Pod, W: Pod>(words: &[W]) -> V {
    pod_read_unaligned(cast_slice(&words[..size_of::<V>() / size_of::<W>()]))
}

/// Writes a vector to the first words of a slice.
///
/// # Panics
/// If they are fewer than a vector's.
#[inline(always)]
pub(crate) fn store<V: Pod, W: Pod>(vector: V, words: &mut [W]) {
    cast_slice_mut(&mut words[..size_of::<V>() / size_of::<W>()]).copy_from_slice(bytes_of(&vector));
}
