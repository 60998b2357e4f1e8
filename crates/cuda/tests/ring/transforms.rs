//! Transforms alone.

use spirea_backend::RingBackend as _;
use spirea_cuda::{Butterfly, CudaBackend, Direction, transform_with};
use spirea_lattice::rlwe::RingSet;

use crate::case::{Data, SHORT, WIDE, emulation, polynomials};

#[test]
fn transforms_are_those_of_the_plans() {
    let rings = [RingSet::Fast.ring(), RingSet::Small.ring(), RingSet::Onion32.ring(), &SHORT, &WIDE];
    emulation().in_every_order(|| {
        let backend = CudaBackend::new(0).unwrap();
        for ring in rings {
            let tables = backend.tables(ring).unwrap();
            for data in [Data::Random(1), Data::Zeros, Data::Largest, Data::Alternating] {
                let coefficients = polynomials(ring, data, 2);
                let mut values = coefficients.clone();
                values.chunks_exact_mut(ring.words()).for_each(|polynomial| ring.forward(polynomial));
                let mut back = coefficients.clone();
                back.chunks_exact_mut(ring.words()).for_each(|polynomial| ring.inverse(polynomial));
                for butterfly in Butterfly::ALL {
                    for (direction, expected) in [(Direction::Forward, &values), (Direction::Inverse, &back)]
                    {
                        let buffer = backend.device().upload(&coefficients).unwrap();
                        transform_with(butterfly, direction, &tables, &buffer).unwrap();
                        let found = backend.device().main().read(&buffer.all()).unwrap();
                        assert!(found == *expected, "{butterfly:?} {direction:?} {data:?}");
                    }
                }
            }
        }
    });
}
