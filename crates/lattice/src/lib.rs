//! LWE ciphertexts, public matrices and noise bounds for Spirea's lattice protocols.
