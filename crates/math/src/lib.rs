//! Moduli, number-theoretic transforms, samplers and seeded randomness: portable, safe, and the oracle of every faster kernel.
