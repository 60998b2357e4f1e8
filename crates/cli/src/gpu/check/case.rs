//! Rings with gadgets whose steps are checked: the sets of the protocols, and a shorter degree.

use std::sync::Arc;

use spirea_lattice::RingSet;
use spirea_math::{Gadget, Modulus, Ring};

/// Ring with gadgets.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The set; `None` for a ring that no protocol uses.
    pub(super) set: Option<RingSet>,
    pub(super) ring: Arc<Ring>,
    pub(super) expansion_gadget: Gadget,
    pub(super) conversion_gadget: Gadget,
    pub(super) selector_gadget: Gadget,
    pub(super) plaintext_bits: u32,
    pub(super) response_bits: (u32, u32),
}

impl Case {
    /// Returns all cases.
    pub(super) fn all() -> Vec<Arc<Self>> {
        let cases = std::iter::once(Self::short()).chain(RingSet::ALL.map(Self::of));
        cases.map(Arc::new).collect()
    }

    fn of(set: RingSet) -> Self {
        Self {
            name: set.name(),
            set: Some(set),
            ring: Arc::clone(set.ring()),
            expansion_gadget: set.expansion_gadget(),
            conversion_gadget: set.conversion_gadget(),
            selector_gadget: set.selector_gadget(),
            plaintext_bits: set.plaintext_bits(),
            response_bits: set.response_bits(),
        }
    }

    /// Returns a case of degree 2048 whose primes have 27 bits, so that residues have every form.
    pub(super) fn narrow() -> Self {
        let primes = [134_176_769, 67_043_329].map(Modulus::new);
        Self {
            name: "degree-2048 27-bit",
            ring: Arc::new(Ring::new(2048, &primes)),
            selector_gadget: Gadget::Residues,
            ..Self::short()
        }
    }

    /// Returns the case of degree 2048, which has kernels of its own.
    fn short() -> Self {
        let primes = [1_073_692_673, 1_073_668_097].map(Modulus::new);
        Self {
            name: "degree-2048",
            set: None,
            ring: Arc::new(Ring::new(2048, &primes)),
            expansion_gadget: Gadget::Residues,
            conversion_gadget: Gadget::Residues,
            selector_gadget: Gadget::Digits { levels: 2, base_log: 14, dropped: 32 },
            plaintext_bits: 17,
            response_bits: (18, 14),
        }
    }
}
