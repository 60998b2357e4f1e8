//! A client for tests. Its arithmetic is plain, and its secrets are public.

use bytes::Bytes;
use spirea_math::Ring;
use spirea_math::random::SecretRng;
use spirea_math::sample::{LWE_NOISE, ternary};

use crate::ciphertext::{push_polynomial, residue_bits};
use crate::keyword::{Bucket, KeywordHash};
use crate::messages::{
    Ciphertext, EncryptedIndices, GaloisKey, PirResponse, RelinKey, SeededCiphertext, SerializedCiphertext,
    SerializedCiphertextVec, SerializedEvaluationKey, SerializedKeySwitchKey,
};
use crate::seed::uniform;
use crate::set::{DEGREE, RINGS};
use crate::{KeyConfig, Shape, bits};

pub struct Client {
    secret: Vec<i32>,
    rng: SecretRng,
}

/// Form in which a ciphertext's first polynomial is sent.
enum Form {
    Coefficients,
    Values,
}

impl Client {
    pub fn new(seed: u64) -> Self {
        let mut rng = SecretRng::deterministic_for_tests(seed);
        Self { secret: (0..DEGREE).map(|_| ternary(&mut rng).into()).collect(), rng }
    }

    /// Returns the client with a recorded secret: a character for each coefficient.
    pub fn with_secret(secret: &str) -> Self {
        let coefficient = |character| "-0+".find(character).expect("a ternary coefficient") as i32 - 1;
        Self { secret: secret.chars().map(coefficient).collect(), rng: SecretRng::deterministic_for_tests(0) }
    }

    /// Encrypts a message, given as the coefficients that the phase has without noise.
    fn encrypt(&mut self, ring: &Ring, message: &[u32], form: Form) -> SerializedCiphertext {
        let mut seed = [0; 32];
        self.rng.fill(&mut seed);
        let noise: Vec<i32> = (0..DEGREE).map(|_| LWE_NOISE.sample(&mut self.rng)).collect();
        let mut mask = uniform(ring, &seed);
        ring.mul_assign(&mut mask, &values(ring, &self.secret));
        ring.inverse(&mut mask);
        let mut c0 = ring.lift(&noise);
        ring.add_assign(&mut c0, message);
        ring.sub_assign(&mut c0, &mask);
        if let Form::Values = form {
            ring.forward(&mut c0);
        }
        let mut poly0 = Vec::new();
        push_polynomial(&mut poly0, ring, &c0, 0);
        let seeded = SeededCiphertext { poly0: poly0.into(), seed: Bytes::copy_from_slice(&seed) };
        SerializedCiphertext { form: Some(Ciphertext::Seeded(seeded)) }
    }

    /// Returns the key that switches from the secret with these coefficients modulo q P.
    fn switch_key(&mut self, from: &[u32]) -> SerializedKeySwitchKey {
        let ring = &RINGS.keys;
        let special = ring.limbs()[2].prime().value();
        let ciphertexts = (0..2).map(|digit| {
            let mut message = ring.zero();
            let range = digit * DEGREE..(digit + 1) * DEGREE;
            let prime = ring.limbs()[digit].prime();
            let scaled = from[range.clone()].iter().map(|&x| prime.mul(x, special % prime.value()));
            message[range].iter_mut().zip(scaled).for_each(|(message, x)| *message = x);
            self.encrypt(ring, &message, Form::Values)
        });
        let ciphertexts = ciphertexts.collect();
        SerializedKeySwitchKey { key_switch_key: Some(SerializedCiphertextVec { ciphertexts }) }
    }

    pub fn evaluation_key(&mut self, config: &KeyConfig) -> SerializedEvaluationKey {
        let ring = &RINGS.keys;
        let secret = ring.lift(&self.secret);
        let key_switch_keys = config
            .galois_elements()
            .iter()
            .map(|&element| (element.into(), self.switch_key(&ring.automorphism(&secret, element as usize))))
            .collect();
        let mut square = values(ring, &self.secret);
        ring.mul_assign(&mut square, &values(ring, &self.secret));
        ring.inverse(&mut square);
        SerializedEvaluationKey {
            galois_key: Some(GaloisKey { key_switch_keys }),
            relin_key: Some(RelinKey { relin_key: Some(self.switch_key(&square)) }),
        }
    }

    /// Returns the query for the keyword's buckets.
    pub fn query(&mut self, shape: &Shape, keyword: &[u8]) -> EncryptedIndices {
        let mut selected = Vec::new();
        for bucket in KeywordHash::of(keyword).buckets(shape.tables(), shape.entries()) {
            let plaintext = bucket / shape.entries_in_plaintext();
            let coordinates = [plaintext / shape.columns(), plaintext % shape.columns()];
            for (&length, coordinate) in shape.dimensions().iter().zip(coordinates) {
                selected.extend((0..length).map(|i| i == coordinate));
            }
        }
        let ring = &RINGS.ciphertext;
        let t = u128::from(shape.set().plaintext_modulus());
        let ciphertexts = selected.chunks(DEGREE).map(|selected| {
            // The inverse of 2^depth modulo the odd t: halve depth times.
            let depth = selected.len().next_power_of_two().ilog2();
            let one = (0..depth).fold(1, |x, _| if x % 2 == 0 { x / 2 } else { (x + t) / 2 });
            let scaled = (ring.modulus() * one + t / 2) / t;
            let mut message = ring.zero();
            for (i, _) in selected.iter().enumerate().filter(|(_, selected)| **selected) {
                ring.set_coefficient(&mut message, i, scaled as i128);
            }
            self.encrypt(ring, &message, Form::Coefficients)
        });
        EncryptedIndices { ciphertexts: ciphertexts.collect(), num_pir_calls: shape.tables() as u64 }
    }

    /// Returns the keyword's value in a response.
    pub fn value(&self, shape: &Shape, keyword: &[u8], response: &PirResponse) -> Option<Vec<u8>> {
        assert_eq!(response.replies.len(), shape.tables());
        let hash = KeywordHash::of(keyword);
        let buckets = hash.buckets(shape.tables(), shape.entries());
        let found = buckets.into_iter().zip(&response.replies).filter_map(|(bucket, reply)| {
            assert_eq!(reply.ciphertexts.len(), shape.chunks());
            let bytes: Vec<u8> =
                reply.ciphertexts.iter().flat_map(|ciphertext| self.plaintext(shape, ciphertext)).collect();
            let start = bucket % shape.entries_in_plaintext() * shape.entry_size();
            let bucket = Bucket::from_bytes(&bytes[start..start + shape.entry_size()]).unwrap();
            bucket.value(hash).map(<[u8]>::to_vec)
        });
        found.into_iter().next()
    }

    fn plaintext(&self, shape: &Shape, ciphertext: &SerializedCiphertext) -> Vec<u8> {
        let Some(Ciphertext::Full(full)) = &ciphertext.form else {
            panic!("a response is no full ciphertext")
        };
        let (ring, (count, mut rest)) = (&RINGS.response, full.polys.split_at(2));
        assert_eq!((count, full.correction_factor, full.skip_lsbs.len()), (&[2, 0][..], 1, 2));
        let mut polynomials = full.skip_lsbs.iter().map(|&dropped| {
            let width = residue_bits(ring, 0) - dropped;
            let (head, tail) = rest.split_at(DEGREE * width as usize / 8);
            rest = tail;
            bits::numbers(head, width).map(|x| x << dropped).collect::<Vec<u32>>()
        });
        let (mut c0, mut c1) = (polynomials.next().unwrap(), polynomials.next().unwrap());
        ring.forward(&mut c1);
        ring.mul_assign(&mut c1, &values(ring, &self.secret));
        ring.inverse(&mut c1);
        ring.add_assign(&mut c0, &c1);
        let (q, t) = (ring.modulus() as u64, u64::from(shape.set().plaintext_modulus()));
        let numbers = c0.iter().map(|&x| ((2 * u64::from(x) * t + q) / (2 * q) % t) as u32);
        let mut bytes = Vec::new();
        bits::push(&mut bytes, shape.set().plaintext_bits(), numbers);
        bytes
    }
}

fn values(ring: &Ring, coefficients: &[i32]) -> Vec<u32> {
    let mut values = ring.lift(coefficients);
    ring.forward(&mut values);
    values
}
