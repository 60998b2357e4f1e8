//! Checks of a message before it is decoded. A field takes more memory than bytes on the wire, so
//! the fields are counted first, without allocation.

use bytes::Bytes;
use prost::Message;

use super::{
    ConfigRequest, EncryptedIndices, EvaluationKeys, PirRequest, Requests, SerializedEvaluationKey,
    UploadedKey,
};
use crate::AppleError;

/// Maximum length of a message from a client: the body limit of Apple's example service.
pub const MAX_INBOUND_BYTES: usize = 10 << 20;
/// Maximum number of requests in a body. Apple's clients send one.
pub const MAX_REQUESTS: usize = 64;
/// Maximum number of evaluation keys in an upload.
pub const MAX_KEYS: usize = 16;
/// Maximum number of use cases in a request for configurations.
pub const MAX_USE_CASES: usize = 1024;
/// Maximum number of ciphertexts of a query: each expands to up to 4096 entries of one-hot vectors.
pub const MAX_CIPHERTEXTS: usize = 16;
/// Maximum number of Galois elements of an evaluation key: one for each level of an expansion, and
/// one for compressed keys.
pub const MAX_GALOIS_ELEMENTS: usize = 16;

/// Limit of a field that holds bytes, and of the fields in it.
pub struct Bound {
    field: u32,
    most: usize,
    inside: &'static [Self],
}

const fn bound(field: u32, most: usize, inside: &'static [Bound]) -> Bound {
    Bound { field, most, inside }
}

/// A message that clients send.
pub trait Inbound: Message + Default {
    /// Name of the message, for errors.
    const NAME: &'static str;
    /// Limits of its fields.
    const BOUNDS: &'static [Bound];

    /// Decodes a message. Its byte fields share the memory of `bytes`.
    ///
    /// # Errors
    /// [`AppleError::TooLarge`] if there are more than [`MAX_INBOUND_BYTES`] bytes;
    /// [`AppleError::Malformed`] if the bytes are not the message, a singular field occurs more
    /// than once, or a field occurs more often than the limits of this module.
    fn from_bytes(bytes: Bytes) -> Result<Self, AppleError> {
        if bytes.len() > MAX_INBOUND_BYTES {
            let (bytes, limit) = (bytes.len(), MAX_INBOUND_BYTES);
            return Err(AppleError::TooLarge { message: Self::NAME, bytes, limit });
        }
        check(&bytes, Self::BOUNDS).map_err(|detail| AppleError::malformed(Self::NAME, detail))?;
        Self::decode(bytes).map_err(|error| AppleError::malformed(Self::NAME, error.to_string()))
    }
}

const CIPHERTEXT: &[Bound] = &[bound(1, 1, &[]), bound(2, 1, &[])];
const INDICES: &[Bound] = &[bound(1, MAX_CIPHERTEXTS, CIPHERTEXT)];
// A ciphertext for each of the two primes of the ciphertext modulus.
const SWITCH_KEY: &[Bound] = &[bound(1, 1, &[bound(1, 2, CIPHERTEXT)])];
const GALOIS_KEY: &[Bound] = &[bound(1, MAX_GALOIS_ELEMENTS, &[bound(2, 1, SWITCH_KEY)])];
const EVALUATION_KEY: &[Bound] = &[bound(1, 1, GALOIS_KEY), bound(2, 1, &[bound(1, 1, SWITCH_KEY)])];
const UPLOADED_KEY: &[Bound] = &[bound(1, 1, &[]), bound(2, 1, EVALUATION_KEY)];
const PIR_REQUEST: &[Bound] = &[bound(2, 1, INDICES), bound(3, 1, &[]), bound(6, 1, UPLOADED_KEY)];

impl Inbound for Requests {
    const NAME: &'static str = "Requests";
    const BOUNDS: &'static [Bound] = &[bound(1, MAX_REQUESTS, &[bound(2, 1, PIR_REQUEST)])];
}

impl Inbound for PirRequest {
    const NAME: &'static str = "PIRRequest";
    const BOUNDS: &'static [Bound] = PIR_REQUEST;
}

impl Inbound for EncryptedIndices {
    const NAME: &'static str = "EncryptedIndices";
    const BOUNDS: &'static [Bound] = INDICES;
}

impl Inbound for EvaluationKeys {
    const NAME: &'static str = "EvaluationKeys";
    const BOUNDS: &'static [Bound] = &[bound(1, MAX_KEYS, UPLOADED_KEY)];
}

impl Inbound for UploadedKey {
    const NAME: &'static str = "EvaluationKey";
    const BOUNDS: &'static [Bound] = UPLOADED_KEY;
}

impl Inbound for SerializedEvaluationKey {
    const NAME: &'static str = "SerializedEvaluationKey";
    const BOUNDS: &'static [Bound] = EVALUATION_KEY;
}

impl Inbound for ConfigRequest {
    const NAME: &'static str = "ConfigRequest";
    const BOUNDS: &'static [Bound] = &[bound(1, MAX_USE_CASES, &[]), bound(2, MAX_USE_CASES, &[])];
}

/// Checks that the fields of a message are complete, and that none occurs more often than its
/// limit. Fields without a limit pass.
fn check(mut bytes: &[u8], bounds: &[Bound]) -> Result<(), String> {
    // No message has more limits.
    let mut counts = [0; 3];
    while !bytes.is_empty() {
        let (number, payload) = next_field(&mut bytes).ok_or("a field is cut off or has no known type")?;
        let Some(payload) = payload else { continue };
        let known = bounds.iter().zip(&mut counts).find(|(bound, _)| bound.field == number);
        let Some((bound, count)) = known else { continue };
        *count += 1;
        if *count > bound.most {
            return Err(format!("field {number} occurs more than {} times", bound.most));
        }
        // The field is text, bytes, or a message whose fields need no limits.
        if !bound.inside.is_empty() {
            check(payload, bound.inside)?;
        }
    }
    Ok(())
}

/// Takes a field's number, and its content if it is length-delimited.
fn next_field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    let key = take_varint(bytes)?;
    let number = u32::try_from(key >> 3).ok().filter(|&number| number > 0)?;
    let payload = match key & 7 {
        0 => take_varint(bytes).map(|_| None)?,
        1 => take(bytes, 8).map(|_| None)?,
        2 => {
            let length = take_varint(bytes)?;
            Some(take(bytes, length)?)
        }
        5 => take(bytes, 4).map(|_| None)?,
        // Groups are deprecated and never part of these messages.
        _ => return None,
    };
    Some((number, payload))
}

/// Takes a varint of at most 64 bits.
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    prost::encoding::decode_varint(bytes).ok()
}

fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = tail;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Ciphertext, SeededCiphertext, SerializedCiphertext};
    use proptest::prelude::*;

    fn seeded(length: usize) -> SerializedCiphertext {
        let poly0 = Bytes::from(vec![7; length]);
        let form = Ciphertext::Seeded(SeededCiphertext { poly0, seed: Bytes::from_static(&[1; 32]) });
        SerializedCiphertext { form: Some(form) }
    }

    fn query(ciphertexts: usize) -> EncryptedIndices {
        EncryptedIndices { ciphertexts: vec![seeded(5); ciphertexts], num_pir_calls: 2 }
    }

    fn malformed<M: Inbound>(bytes: Vec<u8>) -> String {
        match M::from_bytes(bytes.into()) {
            Err(AppleError::Malformed { message, detail }) => {
                assert_eq!(message, M::NAME);
                detail
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("a {} is accepted", M::NAME),
        }
    }

    #[test]
    fn more_fields_than_the_limit_are_refused_before_decoding() {
        let most = query(MAX_CIPHERTEXTS);
        assert_eq!(EncryptedIndices::from_bytes(most.encode_to_vec().into()).unwrap(), most);
        let detail = malformed::<EncryptedIndices>(query(MAX_CIPHERTEXTS + 1).encode_to_vec());
        assert_eq!(detail, "field 1 occurs more than 16 times");
        // The limit holds in nested messages too.
        let request = PirRequest { query: Some(query(MAX_CIPHERTEXTS + 1)), ..Default::default() };
        assert_eq!(malformed::<PirRequest>(request.encode_to_vec()), detail);
    }

    #[test]
    fn a_singular_message_that_occurs_twice_is_refused() {
        // A decoder would merge both, and the limits of each could be exceeded by their sum.
        let request = PirRequest { query: Some(query(1)), ..Default::default() }.encode_to_vec();
        assert!(malformed::<PirRequest>([&request[..], &request].concat()).contains("more than 1 times"));
    }

    #[test]
    fn bytes_that_are_cut_off_are_refused() {
        let bytes = query(2).encode_to_vec();
        assert!(malformed::<EncryptedIndices>(bytes[..bytes.len() - 3].to_vec()).contains("cut off"));
        // A length beyond the end, and a group.
        assert!(malformed::<EncryptedIndices>(vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]).contains("cut off"));
        assert!(malformed::<EncryptedIndices>(vec![0x0b]).contains("cut off"));
    }

    #[test]
    fn long_messages_are_refused() {
        let error = ConfigRequest::from_bytes(vec![0; MAX_INBOUND_BYTES + 1].into()).unwrap_err();
        let (bytes, limit) = (MAX_INBOUND_BYTES + 1, MAX_INBOUND_BYTES);
        assert_eq!(error, AppleError::TooLarge { message: "ConfigRequest", bytes, limit });
    }

    #[test]
    fn text_and_bytes_are_no_messages() {
        let request = ConfigRequest {
            usecases: vec!["net.example.lookup.block".into(), "\u{f}".into()],
            existing_config_ids: vec![Bytes::from_static(&[0xff; 32]), Bytes::from_static(b"\x0b")],
        };
        assert_eq!(ConfigRequest::from_bytes(request.encode_to_vec().into()), Ok(request));
    }

    #[test]
    fn unknown_fields_are_skipped() {
        let bytes = [&query(1).encode_to_vec()[..], &[0xfa, 0x01, 2, 8, 9, 0x80, 0x02, 5]].concat();
        assert_eq!(EncryptedIndices::from_bytes(bytes.into()).unwrap(), query(1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = Bytes::from(bytes);
            if let Ok(message) = Requests::from_bytes(bytes.clone()) {
                prop_assert_eq!(Requests::from_bytes(message.encode_to_vec().into()), Ok(message));
            }
            if let Ok(message) = EvaluationKeys::from_bytes(bytes) {
                prop_assert_eq!(EvaluationKeys::from_bytes(message.encode_to_vec().into()), Ok(message));
            }
        }
    }
}
