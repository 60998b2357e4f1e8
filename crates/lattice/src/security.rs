//! Cost of attacks on a parameter set, by three models.

/// log2 of the cost of the best known attacks on a parameter set: operations under two models of
/// sieving, and the bare cost of one call of a sieve.
///
/// The figures are those of the lattice-estimator with unlimited samples (`scripts/security.py`
/// computes them). They are estimates for plain LWE; for a set with the structure of a ring or a
/// module, they hold as long as no attack uses the structure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Security {
    /// MATZOV's model: the minimum over primal uSVP, primal BDD and the dual hybrid.
    pub matzov: f64,
    /// The model of Becker, Ducas, Gama and Laarhoven: the minimum over the same attacks.
    pub bdgl16: f64,
    /// Core-SVP as in ADPS16: 0.292 times the block size of primal uSVP.
    pub core_svp: f64,
}

impl Security {
    /// Costs for ML-KEM-512 by the same computation, which conservative sets reach.
    pub const ML_KEM_512: Self = Self { matzov: 139.7, bdgl16: 142.2, core_svp: 118.6 };

    /// Returns the security in bits: the minimum over the models that count operations.
    pub fn bits(self) -> f64 {
        self.matzov.min(self.bdgl16)
    }

    /// Returns true if the cost is at least that of `other` under every model.
    pub fn reaches(self, other: Self) -> bool {
        self.matzov >= other.matzov && self.bdgl16 >= other.bdgl16 && self.core_svp >= other.core_svp
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LweSet, RingSet};

    #[test]
    fn every_set_has_128_bits_and_some_of_each_kind_reach_ml_kem_512_under_every_model() {
        let lwe = LweSet::ALL.map(|set| (set.name(), set.security()));
        let ring = RingSet::ALL.map(|set| (set.name(), set.security()));
        for (name, security) in lwe.into_iter().chain(ring) {
            assert!(security.bits() >= 128.0, "{name}: {security:?}");
        }
        let reach = |sets: &[(&'static str, Security)]| -> Vec<&str> {
            let reach = sets.iter().filter(|(_, security)| security.reaches(Security::ML_KEM_512));
            reach.map(|&(name, _)| name).collect()
        };
        assert_eq!(reach(&lwe), ["module-1536"]);
        assert_eq!(reach(&ring), ["paper", "fast", "brief", "small", "onion-26"]);
    }

    #[test]
    fn one_model_below_is_below() {
        let least = Security::ML_KEM_512;
        assert!(least.reaches(least));
        let below = [
            Security { matzov: least.matzov - 0.1, ..least },
            Security { bdgl16: least.bdgl16 - 0.1, ..least },
            Security { core_svp: least.core_svp - 0.1, ..least },
        ];
        assert!(below.iter().all(|security| !security.reaches(least)));
    }
}
