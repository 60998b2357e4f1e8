//! Rates of a card: those of its data sheet, times shares that were measured on an H100.
//!
//! The H100's lines are in bench/results/gpu-nvidia-h100-80gb.jsonl, and a test compares the
//! model's figures for an H100 with them. So for an H100 these figures are fitted; for every other
//! card they assume that the same shares hold.

use serde::Serialize;

use super::card::{Capability, Card};

/// Share of the data sheet's bandwidth that a kernel reads at: 3.10 of 3.35 TB/s.
const MEMORY_SHARE: f64 = 0.925;
/// Share of the tensor cores' rate in scans: 128 queries take 46.2 ms on an H100.
const SCAN_SHARE: f64 = 0.56;
/// Rate of `mma.sync` on 9.0 as a share of the rate of `wgmma` (docs/kernels/cuda-scalar-fold.md).
const MMA_ON_HOPPER: f64 = 0.62;
/// Share of the tensor cores' rate in products of plaintexts and leaves by warpgroups. This share
/// and [`TRANSPOSED`] are fitted to `poly_fold` of `onion` at 1 and 4 GiB, 32 queries.
const WARPGROUP_SHARE: f64 = 0.54;
/// The same by `mma.sync`: the kernel took 5.3 ms at 1 GiB before there was one by warpgroups.
const PRODUCT_SHARE: f64 = 0.39;
/// Share of the rate of `IMAD.WIDE` in products of words: 13.8 ms at 1 GiB.
const WORDS_SHARE: f64 = 0.79;
/// `IMAD.WIDE` of a processor in a cycle (docs/kernels/cuda-product.md: 64 or 32; 32 on an H100).
const WIDE_PRODUCTS: f64 = 32.0;
/// Bytes of leaves and results that a processor transposes in a cycle.
const TRANSPOSED: f64 = 3.6;
/// Share of the cycles in which stages issue instructions. `expand`, `selectors`, `rgsw_fold` and
/// `rotate` in batches of 32 queries reach 0.32 to 0.43; the rest is waiting for rows of keys.
const ISSUE_SHARE: f64 = 0.40;
/// The same for cards whose processors hold one block in place of two: half of the warps hide half
/// of the waiting. Assumed, not measured.
const ISSUE_SHARE_OF_ONE_BLOCK: f64 = ISSUE_SHARE / 2.0;
/// Share of the higher bound that a transform from memory to memory reaches.
const TRANSFORM_SHARE: f64 = 0.81;
/// Dot products of four bytes (`dp4a`) of a processor in a cycle.
const DOT_PRODUCTS: f64 = 64.0;
/// Bytes of queries that the host unpacks and copies in a second, with 16 threads: the time of
/// `exppack-simple`'s scan in a batch, less the time of its kernel.
pub const UNPACKED: f64 = 25e9;
/// Bytes of answers that the host reads, rounds and assembles in a second. Answers return through
/// pinned memory; this is the rest of the batch's time for `exppack-simple`.
pub const ANSWERED: f64 = 4.2e9;
/// Seconds of a batch outside of its steps: launches that nothing hides, and the host.
pub const BATCH: f64 = 0.81e-3;
/// Seconds of a substitution or game of a lone query. Such a query has too few items for the card,
/// and launches each stage in several kernels; there is no graph of the whole query. This value
/// and [`BATCH`] are fitted to `hybrid` at 1, 8 and 64 GiB.
pub const LONE_ITEM: f64 = 1.4e-6;

/// Resource that bounds a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Bandwidth of the memory.
    Memory,
    /// Tensor cores.
    Tensor,
    /// Instructions issued.
    Issue,
    /// Products of words, `IMAD.WIDE`.
    Words,
    /// Dot products of bytes, `dp4a`.
    Dp4a,
    /// Transposition of leaves and results between kernels.
    Transposition,
    /// The host: unpacking queries, assembling answers.
    Host,
    /// Launches of kernels, one after the other.
    Launches,
}

impl Bound {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Tensor => "tensor",
            Self::Issue => "issue",
            Self::Words => "words",
            Self::Dp4a => "dp4a",
            Self::Transposition => "transposition",
            Self::Host => "host",
            Self::Launches => "launches",
        }
    }

    /// Returns the assumption about the rate of this resource in a step on a card.
    pub fn assumption(self, card: &Card, step: &str) -> String {
        match self {
            Self::Memory => format!("memory at {MEMORY_SHARE} of the data sheet"),
            Self::Tensor => {
                let share = match (step, card.compute) {
                    ("scalar_fold", _) => format!("scans at {SCAN_SHARE}"),
                    (_, Capability::C90) => format!("products at {WARPGROUP_SHARE}"),
                    _ => format!("products at {PRODUCT_SHARE}"),
                };
                let rate = card.compute.byte_products();
                format!("{share} of the tensor cores' {rate} multiply-adds of bytes a cycle and processor")
            }
            Self::Issue => format!(
                "stages issue instructions in {:.2} of the cycles, four a cycle (docs/kernels/cuda-ring.md)",
                card.issue_share()
            ),
            Self::Words => format!("IMAD.WIDE at {WORDS_SHARE} of {WIDE_PRODUCTS} a cycle and processor"),
            Self::Dp4a => format!("dp4a at {DOT_PRODUCTS} a cycle and processor"),
            Self::Transposition => {
                format!("leaves and results transposed at {TRANSPOSED} bytes a cycle and processor")
            }
            Self::Host => format!(
                "the host unpacks queries at {} GB/s and assembles answers at {} GB/s, as 16 threads beside an H100 did",
                UNPACKED / 1e9,
                ANSWERED / 1e9
            ),
            Self::Launches => format!(
                "{:.2} ms of launches for a batch, and {:.1} us for each substitution and game of a lone query, as on an H100",
                BATCH * 1e3,
                LONE_ITEM * 1e6
            ),
        }
    }
}

/// Part of a figure's time, with its bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Term {
    /// Name of the step.
    pub name: &'static str,
    /// Time in seconds.
    pub seconds: f64,
    /// Resource that bounds it.
    pub bound: Bound,
}

impl Term {
    /// Returns the term with the longest time as its bottleneck.
    pub fn longest(name: &'static str, times: impl IntoIterator<Item = (Bound, f64)>) -> Self {
        let longest = times.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let (bound, seconds) = longest.unwrap_or((Bound::Launches, 0.0));
        Self { name, seconds, bound }
    }
}

impl Card {
    fn cycles(&self) -> f64 {
        f64::from(self.processors) * self.clock
    }

    /// Returns the seconds for reading `bytes` bytes of memory.
    pub fn reading(&self, bytes: f64) -> f64 {
        bytes / (MEMORY_SHARE * self.bandwidth)
    }

    /// Returns the seconds for `count` instructions of warps in stages.
    pub fn stages(&self, count: f64) -> f64 {
        count / (4.0 * self.cycles() * self.issue_share())
    }

    /// Returns the share of the cycles in which stages issue instructions. Processors with 100 KiB
    /// of shared memory hold one block of a stage (docs/kernels/cuda-ring.md).
    fn issue_share(&self) -> f64 {
        match self.compute {
            Capability::C80 | Capability::C90 => ISSUE_SHARE,
            Capability::C86 | Capability::C89 | Capability::C120 => ISSUE_SHARE_OF_ONE_BLOCK,
        }
    }

    /// Returns the seconds for `count` instructions of warps in every issue slot.
    pub fn issuing(&self, count: f64) -> f64 {
        count / (4.0 * self.cycles())
    }

    /// Returns the share of the higher bound that a transform reaches.
    pub fn transform_share(&self) -> f64 {
        TRANSFORM_SHARE
    }

    /// Returns the multiply-adds of bytes that tensor cores compute in a second: by `wgmma` where
    /// `by_warpgroups` is true, else by `mma.sync`.
    fn tensor_rate(&self, by_warpgroups: bool) -> f64 {
        let slower = self.compute == Capability::C90 && !by_warpgroups;
        self.cycles() * self.compute.byte_products() * if slower { MMA_ON_HOPPER } else { 1.0 }
    }

    /// Returns the seconds of the arithmetic of a scan of `bytes` bytes for `queries` queries, by
    /// the kernel that the batch gets (docs/kernels/cuda-scalar-fold.md).
    pub fn scanning(&self, bytes: f64, queries: usize) -> (Bound, f64) {
        let queries = match queries {
            1 | 2 => return (Bound::Dp4a, bytes * queries as f64 / (DOT_PRODUCTS * self.cycles())),
            3..=8 => 8,
            9..=16 => 16,
            // Groups of 64 on 9.0 and of 32 elsewhere; the last group of 9.0 may have 32.
            _ => queries.next_multiple_of(32),
        };
        let by_warpgroups = self.compute == Capability::C90 && queries > 16;
        // A word of a query has four bytes.
        let products = 4.0 * bytes * queries as f64;
        (Bound::Tensor, products / (SCAN_SHARE * self.tensor_rate(by_warpgroups)))
    }

    /// Returns the seconds for `count` products of residues below 2^`prime_bits` of plaintexts and
    /// leaves, in matrices of `rows` rows, for `queries` queries (docs/kernels/cuda-product.md).
    pub fn multiplying(&self, count: f64, prime_bits: u32, rows: usize, queries: usize) -> (Bound, f64) {
        let by_warpgroups = self.compute == Capability::C90 && queries > 8 && rows > 32;
        let planes = match self.compute {
            _ if by_warpgroups => 16.0,
            _ if prime_bits <= 28 => 10.0,
            Capability::C80 | Capability::C90 => 16.0,
            Capability::C86 | Capability::C89 | Capability::C120 => {
                return (Bound::Words, count / (WORDS_SHARE * WIDE_PRODUCTS * self.cycles()));
            }
        };
        let share = if by_warpgroups { WARPGROUP_SHARE } else { PRODUCT_SHARE };
        (Bound::Tensor, planes * count / (share * self.tensor_rate(by_warpgroups)))
    }

    /// Returns the seconds for transposing `bytes` bytes of leaves and results.
    pub fn transposing(&self, bytes: f64) -> f64 {
        bytes / (TRANSPOSED * self.cycles())
    }
}
