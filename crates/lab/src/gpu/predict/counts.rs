//! Instructions that a warp issues, counted in the machine code of `crates/cuda/pack/kernels.pack`.
//!
//! This is the only place of the counts in the code. Their documents are the tables of
//! docs/kernels/cuda-ntt.md and docs/kernels/cuda-ring.md; a test compares both. If a kernel of the
//! pack changes, another test asks for new counts.

use spirea_lattice::RingSet;
use spirea_math::Gadget;

/// Warps of a team of threads that computes one item of a ring of degree 4096.
pub const WARPS: f64 = 8.0;
/// Coefficients of a thread.
const COEFFICIENTS: u32 = 16;

/// Kernels that compute a stage of a ring's steps, one item for each team of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Node of an expansion.
    Node,
    /// Rotated ciphertext.
    Rotation,
    /// Game of a tournament, or of a selector's assembly.
    Game,
}

/// Machine code for which instructions were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// sm_80. The kernels for nodes and rotated ciphertexts are as long for sm_86 and sm_89, and up
    /// to 4% shorter for sm_120.
    Sm80,
    /// sm_90a.
    Sm90,
}

/// Instructions that a warp issues for an item, by the loops of the kernel that contain them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Once for a source.
    pub once: u32,
    /// For each limb, before the digits: the inverse transform.
    pub inverse: u32,
    /// Once for a source whose residues are recombined.
    pub recombined: u32,
    /// For each coefficient of a thread whose residues are recombined.
    pub coefficient: u32,
    /// For each limb, after the digits: the products' reduction and their way to memory.
    pub limb: u32,
    /// For each digit and limb: the digit, its transform and its products.
    pub digit: u32,
    /// For a digit that is the limb's own residue, which needs no transform.
    pub own: u32,
}

/// Rows of the table in docs/kernels/cuda-ring.md. A game has no digits that are residues, because
/// the gadgets of selectors have none.
pub const STAGES: [(Stage, Code, Parts); 6] = [
    (Stage::Node, Code::Sm90, parts([88, 890, 18, 97, 1316, 912, 292])),
    (Stage::Rotation, Code::Sm90, parts([182, 904, 8, 97, 911, 987, 335])),
    (Stage::Game, Code::Sm90, parts([126, 897, 9, 106, 626, 997, 0])),
    (Stage::Node, Code::Sm80, parts([33, 1011, 5, 96, 1403, 996, 296])),
    (Stage::Rotation, Code::Sm80, parts([33, 1011, 5, 96, 972, 973, 289])),
    (Stage::Game, Code::Sm80, parts([24, 971, 6, 97, 663, 994, 0])),
];

const fn parts([once, inverse, recombined, coefficient, limb, digit, own]: [u32; 7]) -> Parts {
    Parts { once, inverse, recombined, coefficient, limb, digit, own }
}

impl Code {
    /// Returns the instructions that a warp issues for a forward transform of degree 4096 with
    /// Shoup's butterflies and primes below 2^29, from memory to memory.
    pub fn transform(self) -> u32 {
        match self {
            Self::Sm80 => 866,
            Self::Sm90 => 787,
        }
    }

    /// Returns the instructions that a warp issues for an item of `stage`, for digits of `gadget`.
    /// A game has two sources.
    pub fn stage(self, stage: Stage, set: RingSet, gadget: Gadget) -> f64 {
        let [parts] = STAGES
            .iter()
            .filter(|(of, code, _)| (*of, *code) == (stage, self))
            .map(|(_, _, parts)| *parts)
            .collect::<Vec<_>>()[..]
        else {
            unreachable!("the table has one row for each stage and code");
        };
        let limbs = set.ring().limbs().len() as u32;
        let digits = limbs * gadget.levels(set.ring()) as u32;
        let forward = gadget.forward_transforms(set.ring()) as u32;
        let recombination = match gadget {
            Gadget::Residues => 0,
            Gadget::Digits { .. } => parts.recombined + COEFFICIENTS * parts.coefficient,
        };
        let source = parts.once
            + recombination
            + limbs * (parts.inverse + parts.limb)
            + forward * parts.digit
            + (digits - forward) * parts.own;
        f64::from(if stage == Stage::Game { 2 * source } else { source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers in the columns of a table's row, without thousands' separators.
    fn numbers(row: &str) -> Vec<u32> {
        row.split('|').filter_map(|cell| cell.trim().replace(',', "").parse().ok()).collect()
    }

    fn row<'a>(page: &'a str, first: &str) -> &'a str {
        let found: Vec<_> = page.lines().filter(|line| line.starts_with(first)).collect();
        let [row] = found[..] else { panic!("{first}: {found:?}") };
        row
    }

    #[test]
    fn the_counts_are_those_of_the_documents() {
        let page = include_str!("../../../../../docs/kernels/cuda-ntt.md");
        let found = numbers(row(page, "| `ntt_forward_shoup` |"));
        assert_eq!(found[..2], [Code::Sm80.transform(), Code::Sm90.transform()]);
        let page = include_str!("../../../../../docs/kernels/cuda-ring.md");
        for (stage, code, parts) in STAGES {
            let Parts { once, inverse, recombined, coefficient, limb, digit, own } = parts;
            let name = match stage {
                Stage::Node => "node",
                Stage::Rotation => "rotated ciphertext",
                Stage::Game => "game, a source",
            };
            let target = if code == Code::Sm90 { "sm_90a" } else { "sm_80" };
            let mut expected = vec![once, inverse, recombined, coefficient, limb, digit, own];
            expected.truncate(if stage == Stage::Game { 6 } else { 7 });
            assert_eq!(numbers(row(page, &format!("| {name} | {target} |"))), expected, "{name}, {target}");
        }
    }

    /// A changed kernel has other counts. Its machine code then has, almost always, another length.
    #[test]
    fn the_kernels_of_the_pack_are_those_whose_instructions_were_counted() {
        let manifest = include_str!("../../../../cuda/pack/manifest.json");
        let manifest: serde_json::Value = serde_json::from_str(manifest).unwrap();
        for (source, kernel, target, length) in [
            ("ntt", "ntt_forward_shoup_4096", "90a", 1450),
            ("ntt", "ntt_forward_shoup_4096", "80", 1671),
            ("ring_stages", "ring_split_4096", "90a", 4837),
            ("ring_stages", "ring_two_rotations_4096", "90a", 5048),
            ("ring_stages", "ring_two_games_4096", "90a", 4708),
            ("ring_stages", "ring_split_4096", "80", 5315),
            ("ring_stages", "ring_rotation_4096", "80", 4842),
            ("ring_stages", "ring_game_4096", "80", 4571),
        ] {
            let found = &manifest["cubins"][source][target]["kernels"][kernel]["instructions"];
            let remedy = "count its instructions again: docs/kernels/cuda-ring.md, docs/kernels/cuda-ntt.md";
            assert_eq!(*found, length, "{kernel} for sm_{target} has changed; {remedy}");
        }
    }

    #[test]
    fn stages_are_sums_of_their_parts() {
        let (fast, onion) = (RingSet::Fast, RingSet::Onion32);
        // 88 + 3 (890 + 1316) + 6 x 912 + 3 x 292.
        assert_eq!(Code::Sm90.stage(Stage::Node, fast, fast.expansion_gadget()), 13_054.0);
        // 88 + 18 + 16 x 97 + 4 (890 + 1316) + 24 x 912.
        assert_eq!(Code::Sm90.stage(Stage::Node, onion, onion.expansion_gadget()), 32_370.0);
        // Twice 126 + 9 + 16 x 106 + 4 (897 + 626) + 12 x 997.
        assert_eq!(Code::Sm90.stage(Stage::Game, onion, onion.selector_gadget()), 39_774.0);
        // 12 digits more for each source: docs/kernels/cuda-ring.md counts 63,700.
        assert_eq!(Code::Sm90.stage(Stage::Game, onion, onion.conversion_gadget()), 63_702.0);
    }
}
