//! Lowering of packing by rotations: images of a query's chunks under small automorphisms, and sums
//! of images under big ones by Horner's rule. The paper does not have this step; `hybrid` and KsPIR
//! do.
//!
//! Three keys stay in the register file throughout. Dependent operations form a chain, so several
//! chains run in parallel.

use spirea_math::Rotations;

use crate::arch::Arch;
use crate::error::IveError;
use crate::graph::{Event, Graph, Node, Operand, Work};
use crate::schedule::{Digits, Lowering, Order, Schedule, Step};

/// Numbers of the keys, in the order of [`Rotations::keys`].
const BY_STEP: u32 = 0;
const BY_SIGN: u32 = 1;
const BY_BIG: u32 = 2;
/// Number of chains that run in parallel.
const CHAINS: u64 = 4;

/// Returns a schedule that keeps three substitution keys in the register file; ciphertexts take the
/// remaining space.
pub fn rotating(digits: Digits) -> Schedule {
    Schedule { step: Step::Expand, order: Order::Dfs, digits, depth: Rotations::KEYS as u32 }
}

/// Lowers the images of each chunk, numbered as in [`Rotations::of_chunk`].
///
/// # Errors
/// [`IveError::RegisterFile`] if the keys do not fit.
pub fn lower_rotations(arch: &Arch, digits: Digits, rotations: Rotations) -> Result<Graph, IveError> {
    let schedule = rotating(digits);
    let mut lowered = Lowering::new(&schedule, arch, schedule.depth)?;
    for chunk in 0..rotations.chunks() {
        let first = rotations.of_chunk(chunk).start as u64;
        let mut image = lowered.load(chunk as u64)?;
        for step in 0..rotations.steps() as u64 {
            let negative = rotate(&mut lowered, BY_SIGN, image)?;
            lowered.store(negative, first + rotations.steps() as u64 + step);
            let last = step + 1 == rotations.steps() as u64;
            let next = if last { None } else { Some(rotate(&mut lowered, BY_STEP, image)?) };
            let readers = [Some(negative), next].into_iter().flatten().map(|reader| Event::over(reader.node));
            lowered.store_read(image, first + step, readers.collect());
            image = next.unwrap_or(image);
        }
    }
    lowered.graph()
}

/// Lowers sums of [`Rotations::big`] ciphertexts each, which follow one another in memory.
///
/// # Errors
/// [`IveError::RegisterFile`] if the keys do not fit.
pub fn lower_sums(arch: &Arch, digits: Digits, rotations: Rotations, sums: u64) -> Result<Graph, IveError> {
    let schedule = rotating(digits);
    let mut lowered = Lowering::new(&schedule, arch, schedule.depth)?;
    let terms = rotations.big() as u64;
    for first in (0..sums).step_by(CHAINS as usize) {
        let chains = first..sums.min(first + CHAINS);
        let last = chains.clone().map(|sum| lowered.load(sum * terms + terms - 1));
        let mut running = last.collect::<Result<Vec<Operand>, _>>()?;
        for term in (0..terms - 1).rev() {
            for (sum, running) in chains.clone().zip(&mut running) {
                let added = lowered.load(sum * terms + term)?;
                let key = Some(lowered.key(BY_BIG));
                let (work, operands) = (Work::Rotation { exponent: BY_BIG }, vec![*running, added]);
                let node = lowered.add(Node { work, key, operands, place: None, after: Vec::new() });
                lowered.empty(added.place, vec![Event::over(node)]);
                running.node = node;
            }
        }
        chains.zip(running).for_each(|(sum, root)| lowered.store(root, sum));
    }
    lowered.graph()
}

/// Adds an image in a place of its own.
fn rotate(lowered: &mut Lowering<'_>, exponent: u32, image: Operand) -> Result<Operand, IveError> {
    let (place, after) = lowered.place()?;
    let key = Some(lowered.key(exponent));
    let work = Work::Rotation { exponent };
    let node = lowered.add(Node { work, key, operands: vec![image], place: Some(place), after });
    Ok(Operand { node, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_substitutions_as_packing_takes() {
        let arch = Arch::ive().unwrap();
        let rotations = Rotations::new(64, 3, 4);
        let count = |graph: Graph| graph.count(|work| matches!(work, Work::Rotation { .. }));
        for digits in [Digits::Stored, Digits::Forwarded] {
            let images = lower_rotations(&arch, digits, rotations).unwrap();
            let leaves = images.count(|work| matches!(work, Work::StoreCiphertext { .. }));
            assert_eq!(leaves, rotations.leaves() as u64);
            let sums = lower_sums(&arch, digits, rotations, 5).unwrap();
            assert_eq!(count(images) + count(sums), rotations.substitutions(5) as u64);
        }
        let mut small = arch.clone();
        small.core.register_file_kb = 1024;
        assert!(lower_sums(&small, Digits::Forwarded, rotations, 5).is_err());
    }
}
