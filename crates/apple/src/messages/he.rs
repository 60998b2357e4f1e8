//! Messages of homomorphic encryption: package `apple.swift_homomorphic_encryption.v1`.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Parameters of the encryption scheme.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EncryptionParameters {
    /// Degree N of the ring.
    #[prost(uint64, tag = "1")]
    pub polynomial_degree: u64,
    /// Plaintext modulus t.
    #[prost(uint64, tag = "2")]
    pub plaintext_modulus: u64,
    /// Primes; the last one is for key switching only.
    #[prost(uint64, repeated, tag = "3")]
    pub coefficient_moduli: Vec<u64>,
    /// Distribution of the noise: 0, deviation 3.2.
    #[prost(int32, tag = "4")]
    pub error_std_dev: i32,
    /// Required security: 1, 128 bits against quantum attacks.
    #[prost(int32, tag = "5")]
    pub security_level: i32,
    /// Scheme: 1, BFV.
    #[prost(int32, tag = "6")]
    pub he_scheme: i32,
}

/// The key-switching keys that a server asks for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EvaluationKeyConfig {
    /// Parameters of the encryption scheme.
    #[prost(message, optional, tag = "1")]
    pub encryption_parameters: Option<EncryptionParameters>,
    /// Galois elements, ascending.
    #[prost(uint32, repeated, tag = "2")]
    pub galois_elements: Vec<u32>,
    /// True if the server multiplies ciphertexts.
    #[prost(bool, tag = "3")]
    pub has_relin_key: bool,
}

/// A ciphertext whose uniform half is a seed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SeededCiphertext {
    /// First polynomial.
    #[prost(bytes = "bytes", tag = "1")]
    pub poly0: Bytes,
    /// Seed of the second polynomial, 32 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub seed: Bytes,
}

/// A ciphertext with all of its polynomials.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FullCiphertext {
    /// Number of polynomials as a little-endian u16, then the polynomials.
    #[prost(bytes = "bytes", tag = "1")]
    pub polys: Bytes,
    /// Number of dropped low bits of each polynomial's coefficients.
    #[prost(uint32, repeated, tag = "2")]
    pub skip_lsbs: Vec<u32>,
    /// Always 1 under BFV.
    #[prost(uint64, tag = "3")]
    pub correction_factor: u64,
}

/// A ciphertext.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SerializedCiphertext {
    /// Form of the ciphertext.
    #[prost(oneof = "Ciphertext", tags = "1, 2")]
    pub form: Option<Ciphertext>,
}

/// Form of a ciphertext.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum Ciphertext {
    /// With a seed: everything that a client sends.
    #[prost(message, tag = "1")]
    Seeded(SeededCiphertext),
    /// With all polynomials: everything that a server sends.
    #[prost(message, tag = "2")]
    Full(FullCiphertext),
}

/// A list of ciphertexts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SerializedCiphertextVec {
    /// The ciphertexts.
    #[prost(message, repeated, tag = "1")]
    pub ciphertexts: Vec<SerializedCiphertext>,
}

/// A key-switching key: a ciphertext for each prime of the ciphertext modulus.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SerializedKeySwitchKey {
    /// The ciphertexts.
    #[prost(message, optional, tag = "1")]
    pub key_switch_key: Option<SerializedCiphertextVec>,
}

/// The key-switching keys of Galois elements.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GaloisKey {
    /// Key-switching keys by Galois element. Apple's clients send them in any order.
    #[prost(btree_map = "uint64, message", tag = "1")]
    pub key_switch_keys: BTreeMap<u64, SerializedKeySwitchKey>,
}

/// The relinearisation key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RelinKey {
    /// Key-switching key of the square of the secret.
    #[prost(message, optional, tag = "1")]
    pub relin_key: Option<SerializedKeySwitchKey>,
}

/// The evaluation key of a client.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SerializedEvaluationKey {
    /// Keys of the Galois elements.
    #[prost(message, optional, tag = "1")]
    pub galois_key: Option<GaloisKey>,
    /// The relinearisation key.
    #[prost(message, optional, tag = "2")]
    pub relin_key: Option<RelinKey>,
}
