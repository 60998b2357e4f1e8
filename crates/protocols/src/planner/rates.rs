//! This machine's rates: the time of each unit of work, measured by executing samples of it.

use std::collections::HashMap;
use std::time::Instant;

use spirea_backend::{
    Bodies, EvaluationKeys, FixedPacking, PANEL_ROWS, PackedEnds, PanelLayout, ProtocolBackend, RING_DEGREE,
    RingMatrix, RowLayout, SwitchedBits,
};
use spirea_dpf::{Domain, DpfError, OutputKind, PrfKind, select};
use spirea_lattice::rlwe::{Conversion, KeyShape, OneShotQuery, RingSecret, UniformHalves, parse_query};
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::{SecretRng, Seed};
use spirea_math::{Expansion, Rotations, SentChunks};

use crate::ProtocolError;
use crate::steps::Unit;

/// Bytes of the scanned matrix: larger than the caches.
const SCANNED_BYTES: usize = 128 << 20;
/// Leaves of the timed expansion: they make a product's operands larger than the caches.
const LEAVES: usize = 512;
/// Rows of the timed product.
const ROWS: usize = 8;
/// Queries of the timed products.
const QUERIES: usize = 64;
/// Columns of the matrix of bytes that is multiplied by a public matrix.
const FOLDED_COLUMNS: usize = 16384;
/// Numbers of results of the timed packings. The polynomials of one result about fill the caches;
/// those of four far exceed them.
const RESULTS: [usize; 2] = [1, 4];
/// Number of runs; the median counts.
const RUNS: usize = 3;
/// Minimum of a measured time, in seconds. The clock does not resolve smaller differences of two
/// measurements.
const RESOLUTION: f64 = 1e-9;
/// Outputs of the timed share folds.
const OUTPUTS: [OutputKind; 3] = [OutputKind::Bit, OutputKind::U32, OutputKind::U64];
/// Unmeasured runs before measuring memory-bound work: a backend may tune its reading in its first
/// runs.
const TRIALS: usize = 8;

/// Time of each unit of work, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Rates(HashMap<Unit, f64>);

impl Rates {
    /// Measures a backend, in some seconds.
    ///
    /// # Errors
    /// Those of the backend; [`ProtocolError::NoEntropy`].
    pub fn measure<B: ProtocolBackend>(backend: &B, sets: &[RingSet]) -> Result<Self, ProtocolError> {
        Self::measure_telling(backend, sets, |_, _| ())
    }

    /// Like [`Rates::measure`], but reports progress. Before each measurement and after the last,
    /// calls `tell` with the number of completed measurements and their total.
    ///
    /// # Errors
    /// Those of [`Rates::measure`].
    pub fn measure_telling<B: ProtocolBackend>(
        backend: &B,
        sets: &[RingSet],
        tell: impl Fn(usize, usize),
    ) -> Result<Self, ProtocolError> {
        let all = 1 + OUTPUTS.len() + sets.len();
        let mut rates = Self::default();
        tell(0, all);
        rates.measure_folds(backend)?;
        for (i, output) in OUTPUTS.into_iter().enumerate() {
            tell(1 + i, all);
            rates.measure_shares(backend, output)?;
        }
        for (i, &set) in sets.iter().enumerate() {
            tell(1 + OUTPUTS.len() + i, all);
            rates.measure_ring(backend, set)?;
        }
        tell(all, all);
        Ok(rates)
    }

    /// Returns the units that [`Rates::measure`] measures with these sets.
    pub fn units(sets: &[RingSet]) -> Vec<Unit> {
        use Unit::*;
        let mut units = vec![ScannedByte, ProductWord, Product, TransformedByte, PublicColumn];
        units.extend(OUTPUTS.into_iter().flat_map(|output| [SharedRow(output), SharedByte(output)]));
        for &set in sets {
            units.extend([
                Substitution(set),
                EncodedPolynomial(set),
                FoldedPolynomial(set),
                Conversion(set),
                SwitchedCiphertext(set),
                ExternalProduct(set),
            ]);
            if packs_fixed(set) {
                units.extend([FixedPolynomial(set), FixedSubstitution(set)]);
            }
        }
        units
    }

    /// Returns the time of a unit in seconds; 0 if the unit was not measured.
    pub fn seconds(&self, unit: Unit) -> f64 {
        self.0.get(&unit).copied().unwrap_or_default()
    }

    /// Returns all measured units with their times in seconds.
    pub fn iter(&self) -> impl Iterator<Item = (Unit, f64)> {
        self.0.iter().map(|(&unit, &seconds)| (unit, seconds))
    }

    fn set(&mut self, unit: Unit, seconds: f64, count: usize) {
        self.0.insert(unit, seconds.max(RESOLUTION) / count as f64);
    }

    /// Sets the times of two units from two measurements that executed both, as [`separate`]
    /// describes.
    fn set_both(&mut self, units: [Unit; 2], counts: [[usize; 2]; 2], seconds: [f64; 2]) {
        self.0.extend(units.into_iter().zip(separate(counts, seconds)));
    }

    fn measure_folds<B: ProtocolBackend>(&mut self, backend: &B) -> Result<(), ProtocolError> {
        let columns = 8192;
        let layout = PanelLayout::covering(SCANNED_BYTES / columns, columns)?;
        let matrix = backend.upload(layout, &vec![0x5a; layout.bytes()])?;
        let query = vec![0x1234_5678; columns];
        let scan = median_of_settled(|| backend.scalar_fold(&matrix, &query))?;
        self.set(Unit::ScannedByte, scan, layout.bytes());

        // Few columns make the words the dominant work; many columns make the products dominant.
        for (unit, columns) in [(Unit::ProductWord, 16), (Unit::Product, 2048)] {
            let layout = PanelLayout::covering(16384, columns)?;
            let matrix = backend.upload(layout, &vec![0x5a; layout.bytes()])?;
            let queries = vec![0x1234_5678; QUERIES * columns];
            let products = median(|| backend.scalar_fold(&matrix, &queries))?;
            let words = QUERIES * layout.rows();
            self.set(unit, products, if unit == Unit::Product { words * columns } else { words });
        }

        let rows = [PANEL_ROWS, 4 * PANEL_ROWS];
        let seconds = [module_fold(backend, rows[0])?, module_fold(backend, rows[1])?];
        let columns = FOLDED_COLUMNS * LweSet::Module1280.rank();
        let counts = rows.map(|rows| [rows * FOLDED_COLUMNS, columns]);
        self.set_both([Unit::TransformedByte, Unit::PublicColumn], counts, seconds);
        Ok(())
    }

    /// Times folds of long and of short rows, both with `SCANNED_BYTES` bytes in total.
    fn measure_shares<B: ProtocolBackend>(
        &mut self,
        backend: &B,
        output: OutputKind,
    ) -> Result<(), ProtocolError> {
        let row_bytes = [1024, 32];
        let seconds =
            [share_fold(backend, output, row_bytes[0])?, share_fold(backend, output, row_bytes[1])?];
        let counts = row_bytes.map(|row_bytes| [SCANNED_BYTES / row_bytes, SCANNED_BYTES]);
        self.set_both([Unit::SharedRow(output), Unit::SharedByte(output)], counts, seconds);
        Ok(())
    }

    fn measure_ring<B: ProtocolBackend>(&mut self, backend: &B, set: RingSet) -> Result<(), ProtocolError> {
        let mut rng = SecretRng::from_os()?;
        let tables = backend.tables(set.ring())?;
        let gadget = set.selector_gadget();
        let levels = gadget.levels(set.ring());
        let expansion = Expansion::covering(LEAVES);
        let shape =
            KeyShape { set, levels: expansion.levels(), rotations: None, conversion: Conversion::Rgsw };
        let secret = RingSecret::sample(set, &mut rng);
        let words = shape.parse(&secret.evaluation_keys(&shape, &mut rng))?;
        let keys = backend.keys(
            &tables,
            EvaluationKeys {
                expansion_gadget: set.expansion_gadget(),
                expansion: &words.expansion,
                rotations: &words.rotations,
                conversion_gadget: set.conversion_gadget(),
                conversion: &words.conversion,
            },
        )?;
        let query = parse_query(set, &secret.encrypt_leaves(expansion, &[(set.scale(), 1)], &mut rng))?;
        let expand = || backend.expand(&tables, expansion, &[(&keys, &query)]);
        self.set(Unit::Substitution(set), median(expand)?, expansion.substitutions());
        let leaves = expand()?;

        let fill = |row: usize, column: usize, coefficients: &mut [i32]| {
            coefficients.iter_mut().enumerate().for_each(|(i, c)| *c = (row + column + i) as i32);
        };
        let encode = || backend.encode(&tables, ROWS, LEAVES, &fill);
        self.set(Unit::EncodedPolynomial(set), median(encode)?, ROWS * LEAVES);
        let plain = [encode()?];
        let fold = || backend.poly_fold(&tables, &plain, &leaves);
        self.set(Unit::FoldedPolynomial(set), median(fold)?, (ROWS + 2) * LEAVES);

        let depth = ROWS.trailing_zeros() as usize;
        let selectors = || backend.selectors(&tables, &[&keys], &leaves, 0, depth, gadget);
        self.set(Unit::Conversion(set), median(selectors)?, depth * levels);
        let selectors = selectors()?;
        let mut entries = (0..=RUNS).map(|_| fold()).collect::<Result<Vec<_>, _>>()?;
        let bits = SwitchedBits { a: set.response_bits().0, b: set.response_bits().1 };
        let switch = median(|| backend.mod_switch(&tables, &[&entries[0]], bits))?;
        self.set(Unit::SwitchedCiphertext(set), switch, ROWS);
        let tournament = median(|| match entries.pop() {
            Some(entries) => backend.rgsw_fold(&tables, &selectors, entries),
            None => unreachable!("as many entries as runs"),
        })?;
        self.set(Unit::ExternalProduct(set), tournament, ROWS - 1);
        if packs_fixed(set) { self.measure_fixed(backend, set, &tables) } else { Ok(()) }
    }

    /// Times packing for queries that carry their keys, with few and with more results, to separate
    /// the cost per result from the fixed cost.
    fn measure_fixed<B: ProtocolBackend>(
        &mut self,
        backend: &B,
        set: RingSet,
        tables: &B::Tables,
    ) -> Result<(), ProtocolError> {
        let rotations = Rotations::new(RING_DEGREE, LweSet::Module1280.rank(), Rotations::LEAST_STEPS);
        let chunks = SentChunks::Apart;
        let packing = FixedPacking { gadget: set.expansion_gadget(), chunks, rotations };
        let uniform = UniformHalves::new(OneShotQuery { set, chunks, rotations }, &Seed::default());
        let switched = SwitchedBits { a: set.response_bits().0, b: set.response_bits().1 };
        let bodies = Bodies::whole(0, 0);
        let mut seconds = [0.0; 2];
        for (seconds, results) in seconds.iter_mut().zip(RESULTS) {
            let fill = |row: usize, column: usize, to: &mut [i32]| to.fill((row + column) as i32);
            let plain = [backend.encode(tables, results * rotations.big(), rotations.leaves(), &fill)?];
            let (fixed, _) = backend.fix_uniform(tables, packing, uniform.words(), &plain, switched)?;
            *seconds = median(|| {
                let folded = backend.folded(1, Vec::new())?;
                let ends = PackedEnds {
                    folded: &folded,
                    bodies: &bodies,
                    plaintext_bits: set.plaintext_bits(),
                    switched,
                };
                backend.pack_fixed(tables, &fixed, &plain, &[uniform.words()], ends)
            })?;
        }
        let counts = RESULTS.map(|results| {
            let polynomials = (results * rotations.big() + 1) * rotations.leaves();
            [polynomials, packing.substitutions(set.ring(), results)]
        });
        self.set_both([Unit::FixedPolynomial(set), Unit::FixedSubstitution(set)], counts, seconds);
        Ok(())
    }
}

impl FromIterator<(Unit, f64)> for Rates {
    fn from_iter<I: IntoIterator<Item = (Unit, f64)>>(seconds: I) -> Self {
        Self(seconds.into_iter().collect())
    }
}

/// Returns the seconds of each of two units, from two measurements that execute both and little
/// else. `counts` has, for each measurement, the number of each unit; the second measurement has
/// more of the first unit, also relative to the second unit. Each unit's share of a time counts as
/// at least [`RESOLUTION`].
fn separate(counts: [[usize; 2]; 2], seconds: [f64; 2]) -> [f64; 2] {
    let [[few, beside_few], [many, beside_many]] = counts.map(|counts| counts.map(|count| count as f64));
    let determinant = many * beside_few - few * beside_many;
    let first = (seconds[1] * beside_few - seconds[0] * beside_many) / determinant;
    let first = first.max(RESOLUTION / (many - few));
    let second = (seconds[0] - few * first).max(RESOLUTION) / beside_few;
    [first, second]
}

/// Returns true if queries under this set can carry their keys.
fn packs_fixed(set: RingSet) -> bool {
    set.dropped_bits() > 0
}

/// Returns the time of a `share_fold` of rows of `row_bytes` bytes, in seconds.
fn share_fold<B: ProtocolBackend>(
    backend: &B,
    output: OutputKind,
    row_bytes: usize,
) -> Result<f64, ProtocolError> {
    let layout = RowLayout::new(SCANNED_BYTES / row_bytes, row_bytes, 1)?;
    let rows = backend.upload_rows(layout, &vec![0x5a; layout.bytes()])?;
    let failed = |error: DpfError| ProtocolError::BadRequest(error.to_string());
    let domain = Domain::new(layout.rows() as u64, output).map_err(failed)?;
    let mut rng = SecretRng::from_os()?;
    let prf = PrfKind::default();
    let [key, _] = select(prf, domain, 0, &mut rng).map_err(failed)?;
    let keys = [key];
    Ok(median_of_settled(|| backend.share_fold(&rows, 0, prf, &keys))?)
}

/// Returns the time of a `module_fold` of `rows` rows, in seconds.
fn module_fold<B: ProtocolBackend>(backend: &B, rows: usize) -> Result<f64, ProtocolError> {
    let layout = PanelLayout::covering(rows, FOLDED_COLUMNS)?;
    let matrix = backend.upload(layout, &vec![0x5a; layout.bytes()])?;
    let rank = LweSet::Module1280.rank();
    let coefficients = vec![0x1234_5678; layout.columns() * rank];
    let a = RingMatrix { coefficients: &coefficients, block_rows: layout.columns() / RING_DEGREE, rank };
    Ok(median(|| backend.module_fold(&matrix, a))?)
}

/// Returns the median time of some runs, after enough unmeasured runs for a backend's tuning to
/// end.
fn median_of_settled<T, E>(mut run: impl FnMut() -> Result<T, E>) -> Result<f64, E> {
    for _ in 0..TRIALS {
        run()?;
    }
    median(run)
}

/// Returns the median time of some runs, after one unmeasured run.
fn median<T, E>(mut run: impl FnMut() -> Result<T, E>) -> Result<f64, E> {
    run()?;
    let mut times = [0.0; RUNS];
    for time in &mut times {
        let started = Instant::now();
        run()?;
        *time = started.elapsed().as_secs_f64();
    }
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;
    use spirea_cpu::CpuBackend;

    use super::*;

    proptest! {
        #[test]
        fn two_units_are_separated(
            (few, more, beside) in (1usize..1000, 1usize..1000, 1usize..1000),
            fewer_beside in 0usize..1000,
            (first, second) in (1e-3f64..1.0, 1e-3f64..1.0),
        ) {
            let counts = [[few, beside + fewer_beside], [few + more, beside]];
            let seconds = counts.map(|[a, b]| a as f64 * first + b as f64 * second);
            let [found_first, found_second] = separate(counts, seconds);
            prop_assert!((found_first - first).abs() < 1e-6, "{found_first}, not {first}");
            prop_assert!((found_second - second).abs() < 1e-3 * second, "{found_second}, not {second}");
        }
    }

    #[test]
    fn units_below_the_resolution_take_some_time() {
        // The measurement with more of the first unit was no slower.
        let [first, second] = separate([[10, 4], [30, 4]], [0.5, 0.4]);
        assert_eq!(first, RESOLUTION / 20.0);
        assert!((second - 0.125).abs() < 1e-9, "{second}");
        // The first unit alone accounts for all of the time.
        let [first, second] = separate([[10, 4], [30, 4]], [0.1, 0.9]);
        assert!((first - 0.04).abs() < 1e-12, "{first}");
        assert_eq!(second, RESOLUTION / 4.0);
    }

    #[test]
    fn a_backend_has_a_time_of_each_unit() {
        let set = RingSet::ALL.into_iter().find(|&set| packs_fixed(set)).unwrap();
        let told = RefCell::new(Vec::new());
        let tell = |done, all| told.borrow_mut().push((done, all));
        let rates = Rates::measure_telling(&CpuBackend::new(2).unwrap(), &[set], tell).unwrap();
        assert_eq!(told.into_inner(), [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]);
        let units = Rates::units(&[set]);
        assert_eq!(rates.iter().count(), units.len());
        for unit in units {
            let seconds = rates.seconds(unit);
            assert!(seconds > 0.0 && seconds < 1.0, "{}: {seconds}", unit.name());
            assert!(rates.iter().any(|measured| measured == (unit, seconds)));
        }
        assert_eq!(Rates::default().seconds(Unit::ScannedByte), 0.0);
    }
}
