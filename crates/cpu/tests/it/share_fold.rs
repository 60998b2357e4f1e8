//! Folds by shares against their definition, for every instruction set, function and output.

use proptest::prelude::*;
use spirea_backend::{
    BackendError, FileLayout as _, NaiveBackend, RowLayout, Share, ShareBackend, ShareFold, partial_folds,
};
use spirea_cpu::{CpuBackend, Isa};
use spirea_dpf::{Bit, Domain, Key, OutputKind, PrfKind, PrfVisitor, generate};
use spirea_math::random::{SecretRng, Seed, public_row};

/// Visitor that generates keys of one party for random points.
struct Keys<'a> {
    domain: Domain,
    party: usize,
    count: usize,
    rng: &'a mut SecretRng,
}

impl PrfVisitor for Keys<'_> {
    type Output = Vec<Key>;

    fn visit<P: spirea_dpf::Prf>(self, prf: P) -> Vec<Key> {
        let Self { domain, party, count, rng } = self;
        let key = |_| {
            let point = rng.next_u64() % domain.points();
            let keys = match domain.output() {
                OutputKind::Bit => generate(prf, domain, point, Bit(true), rng),
                OutputKind::U32 => generate(prf, domain, point, rng.next_u64() as u32, rng),
                OutputKind::U64 => generate(prf, domain, point, rng.next_u64(), rng),
                OutputKind::U128 => generate(prf, domain, point, u128::from(rng.next_u64()) << 60, rng),
            };
            keys.unwrap()[party].clone()
        };
        (0..count).map(key).collect()
    }
}

fn keys(prf: PrfKind, domain: Domain, party: usize, count: usize) -> Vec<Key> {
    let mut rng = SecretRng::deterministic_for_tests(party as u64 + domain.points());
    prf.visit(Keys { domain, party, count, rng: &mut rng })
}

fn bytes(layout: RowLayout) -> Vec<u8> {
    let mut words = vec![0; layout.bytes().div_ceil(4)];
    public_row(&Seed::new([3; 32]), layout.rows() as u64, &mut words);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(layout.bytes());
    bytes
}

/// Checks that all instruction sets give the definition's answers.
fn agrees(layout: RowLayout, first_row: usize, domain: Domain, prf: PrfKind, party: usize, count: usize) {
    let (bytes, keys) = (bytes(layout), keys(prf, domain, party, count));
    let naive = NaiveBackend.upload_rows(layout, &bytes).unwrap();
    let expected = NaiveBackend.share_fold(&naive, first_row, prf, &keys).unwrap();
    for isa in Isa::available() {
        let backend = CpuBackend::with_isa(isa, 2).unwrap();
        let rows = backend.upload_rows(layout, &bytes).unwrap();
        let answers = backend.share_fold(&rows, first_row, prf, &keys).unwrap();
        assert!(answers == expected, "{isa}: {layout:?}, {domain:?}, {prf}, {party}, {count} keys");
    }
}

const FOLDED: [OutputKind; 3] = [OutputKind::Bit, OutputKind::U32, OutputKind::U64];

#[test]
fn every_function_and_output() {
    for prf in PrfKind::ALL {
        for output in FOLDED {
            let layout = RowLayout::new(1300, 40, 1).unwrap();
            agrees(layout, 0, Domain::new(1300, output).unwrap(), prf, 1, 2);
        }
    }
}

/// Both halves of tiles of at least a mebibyte are read at the same time; the last tile is
/// incomplete and is read in one pass.
#[test]
fn a_lone_key_over_large_tiles() {
    for (row_bytes, parts) in [(128, 1), (131, 2), (256, 1), (300, 1)] {
        let layout = RowLayout::new(70_000, row_bytes, parts).unwrap();
        for party in 0..2 {
            let domain = Domain::new(69_000, OutputKind::Bit).unwrap();
            agrees(layout, 1000, domain, PrfKind::Aes128, party, 1);
        }
    }
}

#[test]
fn every_number_of_keys_up_to_two_groups() {
    for count in [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 130] {
        for output in FOLDED {
            let layout = RowLayout::new(700, 72, 1).unwrap();
            agrees(layout, 0, Domain::new(700, output).unwrap(), PrfKind::Aes128, count % 2, count);
        }
    }
}

proptest! {
    #![proptest_config(crate::common::cases(60))]

    #[test]
    fn any_shape(
        rows in 1usize..5000, words in 1usize..40, wide in any::<bool>(), odd in 0usize..8, parts in 1usize..4,
        skipped in 0usize..100, points in 1usize..5000, output in 0usize..3, party in 0usize..2, count in 1usize..9,
    ) {
        let output = FOLDED[output];
        let (row_bytes, rows) = if wide { (words * 96, rows % 300 + 1) } else { (words * 8, rows) };
        let row_bytes = if output == OutputKind::Bit { (row_bytes - odd).max(1) } else { row_bytes };
        let layout = RowLayout::new(rows, row_bytes, parts).unwrap();
        let first_row = skipped % rows;
        let points = points.min(rows - first_row) as u64;
        agrees(layout, first_row, Domain::new(points, output).unwrap(), PrfKind::Aes128, party, count);
    }
}

proptest! {
    #![proptest_config(crate::common::cases(30))]

    /// Bits for several sets of eight keys, over rows with any number of stripes.
    #[test]
    fn many_keys_over_rows_of_any_width(
        rows in 1usize..600, row_bytes in 1usize..200, parts in 1usize..3, skipped in 0usize..40,
        party in 0usize..2, count in 1usize..70,
    ) {
        let layout = RowLayout::new(rows, row_bytes, parts).unwrap();
        let first_row = skipped % rows;
        let domain = Domain::new((rows - first_row) as u64, OutputKind::Bit).unwrap();
        agrees(layout, first_row, domain, PrfKind::Aes128, party, count);
    }
}

proptest! {
    #![proptest_config(crate::common::cases(30))]

    /// Bins of rows, each with its own keys, and the same bins divided into shares with arbitrary
    /// ends.
    #[test]
    fn bins_of_any_shape_and_their_shares(
        bin_rows in 1usize..1300, bins in 1usize..20, words in 1usize..20, odd in 0usize..8, parts in 1usize..3,
        output in 0usize..3, party in 0usize..2, count in 1usize..6, shares in 1usize..9,
    ) {
        let output = FOLDED[output];
        let row_bytes = if output == OutputKind::Bit { (words * 8 - odd).max(1) } else { words * 8 };
        let layout = RowLayout::new(bin_rows * bins, row_bytes, parts).unwrap().in_bins(bins).unwrap();
        let (bytes, domain) = (bytes(layout), Domain::new(bin_rows as u64, output).unwrap());
        let all = keys(PrfKind::Aes128, domain, party, bins * count);
        let folds: Vec<ShareFold<'_>> = all
            .chunks_exact(count)
            .enumerate()
            .map(|(bin, keys)| ShareFold { first_row: bin * bin_rows, keys })
            .collect();
        let naive = NaiveBackend.upload_rows(layout, &bytes).unwrap();
        let expected = NaiveBackend.share_folds(&naive, PrfKind::Aes128, &folds).unwrap();
        prop_assert_eq!(expected.len(), all.len() * layout.answer_bytes());
        for isa in Isa::available() {
            let backend = CpuBackend::with_isa(isa, 2).unwrap();
            let rows = backend.upload_rows(layout, &bytes).unwrap();
            let answers = backend.share_folds(&rows, PrfKind::Aes128, &folds).unwrap();
            prop_assert!(answers == expected, "{}: {:?}, {:?}", isa, layout, domain);
            prop_assert!(backend.share_folds(&rows, PrfKind::Aes128, &[]).unwrap().is_empty());
        }
        let backend = CpuBackend::new(2).unwrap();
        let mut sum = vec![0; expected.len()];
        for share in Share::new(0, shares).unwrap().all() {
            let own = share.records(layout);
            if own.is_empty() {
                continue;
            }
            let ranges = layout.ranges(&own);
            let part: Vec<u8> = ranges.into_iter().flat_map(|range| bytes[range].to_vec()).collect();
            let rows = backend.upload_rows(layout.part(&own).unwrap(), &part).unwrap();
            let of_share = partial_folds(&backend, layout, (&own, &rows), PrfKind::Aes128, &folds).unwrap();
            output.add_to(&mut sum, &of_share);
        }
        prop_assert!(sum == expected, "{} shares of {:?}, {:?}", shares, layout, domain);
    }
}

#[test]
fn extreme_rows() {
    let layout = RowLayout::new(600, 64, 1).unwrap();
    for byte in [0, 255, 128] {
        let bytes = vec![byte; layout.bytes()];
        for output in FOLDED {
            let keys = keys(PrfKind::Aes128, Domain::new(600, output).unwrap(), 0, 5);
            let naive = NaiveBackend.upload_rows(layout, &bytes).unwrap();
            let expected = NaiveBackend.share_fold(&naive, 0, PrfKind::Aes128, &keys).unwrap();
            for isa in Isa::available() {
                let backend = CpuBackend::with_isa(isa, 1).unwrap();
                let rows = backend.upload_rows(layout, &bytes).unwrap();
                assert!(backend.share_fold(&rows, 0, PrfKind::Aes128, &keys).unwrap() == expected);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let backend = CpuBackend::new(1).unwrap();
    let layout = RowLayout::new(100, 36, 1).unwrap();
    let rows = backend.upload_rows(layout, &bytes(layout)).unwrap();
    let made = |points, output, party, count| {
        keys(PrfKind::Aes128, Domain::new(points, output).unwrap(), party, count)
    };
    let mixed = [made(100, OutputKind::Bit, 0, 1), made(100, OutputKind::Bit, 1, 1)].concat();
    let domains = [made(100, OutputKind::Bit, 0, 1), made(99, OutputKind::Bit, 0, 1)].concat();
    let refused = [
        (0, vec![]),
        (0, made(100, OutputKind::Bit, 0, 513)),
        (0, made(101, OutputKind::Bit, 0, 1)),
        (1, made(100, OutputKind::Bit, 0, 1)),
        (usize::MAX, made(100, OutputKind::Bit, 0, 1)),
        (0, made(100, OutputKind::U128, 0, 1)),
        (0, made(100, OutputKind::U64, 0, 1)),
        (0, mixed),
        (0, domains),
    ];
    for (first_row, keys) in refused {
        let refused = backend.share_fold(&rows, first_row, PrfKind::Aes128, &keys);
        assert!(matches!(refused, Err(BackendError::Shape(_))));
        let fitting = made(50, OutputKind::Bit, 0, 1);
        let folds = [ShareFold { first_row: 0, keys: &fitting }, ShareFold { first_row, keys: &keys }];
        let refused = backend.share_folds(&rows, PrfKind::Aes128, &folds);
        assert!(matches!(refused, Err(BackendError::Shape(_))));
    }
    assert!(layout.in_bins(0).is_err() && layout.in_bins(3).is_err() && layout.in_bins(200).is_err());
    assert!(backend.upload_rows(layout, &[0; 3599]).is_err());
    for (rows, row_bytes, parts) in
        [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 4097, 1), (usize::MAX, 4096, usize::MAX)]
    {
        assert!(RowLayout::new(rows, row_bytes, parts).is_err());
    }
}
