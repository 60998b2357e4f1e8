//! Forms in which residues are multiplied.

use crate::driver::Compute;

/// Form in which residues are multiplied. It determines the plain matrix's layout in memory; every
/// form takes 4 bytes a residue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Words, multiplied by integer arithmetic with one multiply-add of 32 x 32 bits into 64.
    Words,
    /// Four planes of 8 bits, multiplied by tensor cores with 16 products of bytes.
    Octets,
    /// Four planes of 7 bits, multiplied by tensor cores with 10 products of bytes; for primes
    /// below 2^28.
    Septets,
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 3] = [Self::Words, Self::Octets, Self::Septets];

    /// Chooses the form for a device and a ring's primes.
    ///
    /// On the data-centre architectures (8.0, 9.0, 10.0) a processor multiplies at least 32 times
    /// as many bytes in its tensor cores as words outside of them. So 16 products of bytes are at
    /// least twice as fast as one product of words. On the other architectures (7.5, 8.6, 8.9,
    /// 12.0) the ratio is 16: 10 products of bytes are faster than one product of words, but 16 are
    /// not.
    pub fn choose(compute: Compute, primes: impl IntoIterator<Item = u32>) -> Self {
        if primes.into_iter().all(|q| Self::Septets.holds(q)) {
            Self::Septets
        } else if compute.minor == 0 && compute.major < 12 {
            Self::Octets
        } else {
            Self::Words
        }
    }

    /// Returns true if residues modulo `q` can have this form.
    pub fn holds(self, q: u32) -> bool {
        match self {
            Self::Words | Self::Octets => true,
            Self::Septets => q <= 1 << 28,
        }
    }

    /// Returns the rows of a warp, in groups of eight: `Tile::OCTETS` of `product_words.cu` and
    /// `product_bytes.cu`.
    pub(super) fn octets(self) -> usize {
        match self {
            Self::Words => 8,
            Self::Octets | Self::Septets => 4,
        }
    }

    /// Returns the name of the kernel that brings rows of the plain matrix to the product's layout.
    pub(super) fn rows(self) -> &'static str {
        match self {
            Self::Words => "transpose_rows_words",
            Self::Octets => "transpose_rows_octets",
            Self::Septets => "transpose_rows_septets",
        }
    }

    /// Returns the names of the form's kernels for warps.
    pub(super) fn of_warps(self) -> Names {
        let (columns, product) = match self {
            Self::Words => ("transpose_columns_words", "product_words"),
            Self::Octets => ("transpose_columns_octets", "product_octets"),
            Self::Septets => ("transpose_columns_septets", "product_septets"),
        };
        Names { columns, product }
    }

    /// Returns the names of the form's kernels for warpgroups; `None` if there are none.
    pub(super) fn of_warpgroups(self) -> Option<Names> {
        let (columns, product) = match self {
            Self::Words => return None,
            Self::Octets => ("transpose_columns_octet_cores", "product_octets_warpgroups"),
            Self::Septets => ("transpose_columns_septet_cores", "product_septets_warpgroups"),
        };
        Some(Names { columns, product })
    }
}

/// Threads that multiply together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Team {
    /// One warp, for any device and any number of queries.
    Warp,
    /// Four warps, whose products run in the background; for compute capability 9.0 and many
    /// queries.
    Warpgroup,
}

/// Names of the kernels of a form and a team.
pub(super) struct Names {
    /// Brings leaves to the product's layout.
    pub columns: &'static str,
    /// Computes the product.
    pub product: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_cores_are_used_where_they_win() {
        let compute = |major, minor| Compute { major, minor };
        for device in [compute(7, 5), compute(8, 0), compute(8, 6), compute(9, 0), compute(12, 0)] {
            assert_eq!(Form::choose(device, [134_176_769, 67_043_329]), Form::Septets);
        }
        for device in [compute(8, 0), compute(9, 0), compute(10, 0)] {
            assert_eq!(Form::choose(device, [134_176_769, 536_608_769]), Form::Octets);
        }
        for device in [compute(7, 5), compute(8, 6), compute(8, 9), compute(12, 0)] {
            assert_eq!(Form::choose(device, [536_608_769]), Form::Words);
        }
    }
}
