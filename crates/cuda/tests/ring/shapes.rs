//! Refused shapes.

use std::sync::Arc;

use spirea_backend::{
    Backend as _, BackendError, Bodies, EvaluationKeys, FoldedBlocks, PanelLayout, RingBackend as _,
    SwitchedBits,
};
use spirea_cuda::CudaBackend;
use spirea_math::{Expansion, Gadget, Modulus, Ring, Rotations};

use crate::case::{ALL_BITS, Case, Data, device, emulation, polynomials, refused};

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let case = Case::short();
    emulation().with(device(), || {
        let backend = CudaBackend::new(0).unwrap();
        let tables = backend.tables(&case.ring).unwrap();
        let keys = case.keys(&backend, &tables, 1, Data::Random(1));
        let words = polynomials(&case.ring, Data::Random(1), 2);
        let expand =
            |leaves, words: &[u32]| backend.expand(&tables, Expansion::covering(leaves), &[(&keys, words)]);
        assert!(refused(expand(3, &words)) && refused(expand(2, &words[1..])));
        let leaves = expand(2, &words).unwrap();
        let selectors =
            |first, depth| backend.selectors(&tables, &[&keys], &leaves, first, depth, case.selector);
        assert!(refused(selectors(1, 1)) && refused(selectors(0, 2)) && refused(selectors(0, usize::MAX)));
        let long = Gadget::Digits { levels: 25, base_log: 2, dropped: 0 };
        assert!(refused(backend.selectors(&tables, &[&keys], &leaves, 0, 1, long)));
        assert!(refused(backend.selectors(&tables, &[&keys, &keys], &leaves, 0, 1, case.selector)));
        let one = selectors(0, 1).unwrap();
        let ciphertexts = |count| case.ciphertexts(&backend, &tables, count, &[Data::Random(1)]);
        let pair = || case.ciphertexts(&backend, &tables, 2, &[Data::Random(1), Data::Random(2)]);
        assert!(refused(backend.rgsw_fold(&tables, &one, ciphertexts(3))));
        assert!(refused(backend.rgsw_fold(&tables, &one, pair())));
        for (a, b) in [(0, 8), (8, 57)] {
            assert!(refused(backend.mod_switch(&tables, &[&ciphertexts(1)], SwitchedBits { a, b })));
        }
        assert!(refused(backend.mod_switch(&tables, &[&ciphertexts(1), &pair()], ALL_BITS)));
        let layout = |rows, columns| PanelLayout::covering(rows, columns).unwrap();
        let matrix = backend.upload(layout(4096, 4), &vec![1; 4 * 4096]).unwrap();
        let folded = backend.scalar_fold(&matrix, &[1; 8]).unwrap();
        for (first, stride, bits) in [(0..4097, 0, 8), (0..4096, 4097, 8), (0..1, 1, 32), (4096..8193, 0, 8)]
        {
            let bodies = Bodies { first, stride };
            assert!(refused(backend.add_bodies(&tables, &mut pair(), &folded, &bodies, bits)), "{bodies:?}");
        }
        // Three ciphertexts of 2048 bytes each.
        let bits = SwitchedBits { a: 4, b: 4 };
        let reinterpret =
            |count, bits, layout| backend.reinterpret(&tables, &ciphertexts(count), bits, layout);
        assert!(
            refused(reinterpret(3, bits, layout(2047 - 31, 3)))
                && refused(reinterpret(5, bits, layout(2048, 4)))
        );
        assert!(refused(reinterpret(3, SwitchedBits { a: 0, ..bits }, layout(2048, 3))));
        let matrices = reinterpret(3, bits, layout(2048, 3)).unwrap();
        assert!(
            refused(backend.scalar_fold_own(&matrices, &[1; 8]))
                && refused(backend.scalar_fold_own(&matrices, &[]))
        );
        assert!(
            refused(backend.columns(layout(2048, 3), &[1; 6]))
                && refused(backend.columns(layout(2048, 3), &[]))
        );
        let columns =
            |layout: PanelLayout, count| backend.columns(layout, &vec![1; count * layout.columns()]).unwrap();
        for (columns, blocks, bits) in [
            (columns(layout(4096, 4), 2), 1, 8),
            (columns(layout(2048, 4), 2), 0, 8),
            (columns(layout(2048, 4), 2), 2, 8),
            (columns(layout(2048, 4), 2), usize::MAX, 8),
            (columns(layout(2048, 4), 2), 1, 0),
            (columns(layout(2048, 4), 2), 1, 32),
            (columns(layout(2048, 4), 3), 1, 8),
        ] {
            let folded = FoldedBlocks { blocks, bits };
            assert!(refused(backend.encode_fold(&tables, &matrices, &columns, folded, &leaves)));
            assert!(refused(backend.encode_fold(&tables, &matrices, &columns, folded, &pair())));
        }
        let keys = EvaluationKeys {
            expansion_gadget: case.expansion,
            expansion: &words[..7],
            rotations: &[],
            conversion_gadget: case.conversion,
            conversion: &[],
        };
        assert!(refused(backend.keys(&tables, keys)));
        let empty = backend.keys(&tables, EvaluationKeys { expansion: &[], ..keys }).unwrap();
        assert!(refused(backend.selectors(&tables, &[&empty], &leaves, 0, 1, case.selector)));
        let other = Arc::new(Ring::new(1024, &[Modulus::new(134_176_769)]));
        assert!(matches!(backend.tables(&other), Err(BackendError::Unavailable(_))));
    });
}

#[test]
fn rotations_that_do_not_fit_are_refused() {
    let case = Case::short();
    emulation().with(device(), || {
        let backend = CudaBackend::new(0).unwrap();
        let tables = backend.tables(&case.ring).unwrap();
        let keys = case.keys(&backend, &tables, 2, Data::Random(1));
        let words = polynomials(&case.ring, Data::Random(1), 2);
        let leaves = backend.expand(&tables, Expansion::partial(1, 2), &[(&keys, &words)]).unwrap();
        let rotations = |chunks| Rotations::new(8, chunks, 2);
        let rotate = |chunks, keys: &[_]| backend.rotate(&tables, rotations(chunks), keys, &leaves);
        assert!(rotate(2, &[&keys]).is_ok());
        assert!(refused(rotate(3, &[&keys])) && refused(rotate(2, &[])) && refused(rotate(2, &[&keys; 2])));
        let ciphertexts = |count| case.ciphertexts(&backend, &tables, count, &[Data::Random(1)]);
        let sum = |count, keys: &[_]| backend.sum_rotated(&tables, rotations(1), keys, ciphertexts(count));
        assert_eq!(sum(4, &[&keys]).unwrap().count(), 2);
        assert!(refused(sum(3, &[&keys])) && refused(sum(4, &[])) && refused(sum(4, &[&keys; 2])));

        let leaf = |expansion, leaf| backend.expand_leaf(&tables, expansion, &[&keys], &leaves, leaf);
        let further = |leaves| Expansion::further(1, leaves);
        assert!(leaf(further(2), 1).is_ok());
        assert!(refused(leaf(further(2), 2)) && refused(leaf(further(3), 1)));
        assert!(refused(backend.expand_leaf(&tables, further(2), &[], &leaves, 0)));

        let empty = EvaluationKeys {
            expansion_gadget: case.expansion,
            expansion: &[],
            rotations: &[],
            conversion_gadget: case.conversion,
            conversion: &[],
        };
        assert!(refused(backend.keys(&tables, EvaluationKeys { rotations: &words, ..empty })));
        let empty = backend.keys(&tables, empty).unwrap();
        assert!(refused(rotate(1, &[&empty])) && refused(sum(4, &[&empty])));
        // Sums of one term need no rotation, but the keys must still be keys for rotations.
        assert!(refused(backend.sum_rotated(&tables, Rotations::new(4, 1, 2), &[&empty], ciphertexts(1))));
    });
}
