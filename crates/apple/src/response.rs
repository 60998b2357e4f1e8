use crate::ciphertext::{push_polynomial, residue_bits};
use crate::messages::{
    Ciphertext, FullCiphertext, PirResponse, SerializedCiphertext, SerializedCiphertextVec,
};
use crate::set::{POLYNOMIALS, Polynomials, RINGS, Set};

/// The response to a query.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    set: Set,
    /// For each table, a ciphertext for each chunk, as coefficients modulo the first prime.
    replies: Vec<Vec<Polynomials>>,
}

impl Response {
    pub(crate) fn new(set: Set, replies: Vec<Vec<Polynomials>>) -> Self {
        Self { set, replies }
    }

    /// Returns the response as a message, without the low bits that decryption can do without.
    pub fn message(&self) -> PirResponse {
        let vec = |ciphertexts: &Vec<Polynomials>| SerializedCiphertextVec {
            ciphertexts: ciphertexts.iter().map(|ciphertext| self.serialized(ciphertext)).collect(),
        };
        PirResponse { replies: self.replies.iter().map(vec).collect() }
    }

    fn serialized(&self, ciphertext: &Polynomials) -> SerializedCiphertext {
        let dropped = self.set.dropped_bits();
        let ring = &RINGS.response;
        let kept: u32 = dropped.iter().map(|dropped| residue_bits(ring, 0) - dropped).sum();
        let mut polys = Vec::with_capacity(2 + kept as usize * ring.degree() / 8);
        polys.extend((POLYNOMIALS as u16).to_le_bytes());
        for (polynomial, dropped) in ciphertext.iter().zip(dropped) {
            push_polynomial(&mut polys, ring, polynomial, dropped);
        }
        let full = FullCiphertext { polys: polys.into(), skip_lsbs: dropped.to_vec(), correction_factor: 1 };
        SerializedCiphertext { form: Some(Ciphertext::Full(full)) }
    }
}
