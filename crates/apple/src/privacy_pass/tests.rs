//! The vectors of RFC 9578 (appendix B.2), and tokens of any bytes.

use proptest::prelude::*;
use serde::Deserialize;

use super::{Challenge, IssuerKey, RequestError, Token, TokenError, TokenKey, TokenRequest};

/// A vector of RFC 9578. Fields are hexadecimal.
#[derive(Deserialize)]
struct Vector {
    #[serde(rename = "pkS")]
    key: String,
    token_challenge: String,
    nonce: String,
    token: String,
    #[serde(rename = "skS")]
    private: String,
    token_request: String,
    token_response: String,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../../../../conformance/vectors/privacy_pass.json")).unwrap()
}

fn header(token: &[u8]) -> String {
    use base64::Engine as _;
    format!("PrivateToken token={}", base64::engine::general_purpose::URL_SAFE.encode(token))
}

#[test]
fn the_vectors_of_the_rfc_verify_and_any_changed_bit_does_not() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 5);
    for vector in vectors {
        let key = TokenKey::from_spki(&hex::decode(&vector.key).unwrap()).unwrap();
        assert_eq!(key.spki(), hex::decode(&vector.key).unwrap());
        let bytes_of_token = hex::decode(&vector.token).unwrap();
        let token = Token::from_authorization(header(&bytes_of_token).as_bytes()).unwrap();
        assert_eq!(token.as_bytes(), bytes_of_token);
        assert_eq!(
            (token.key_id(), token.nonce()[..] == hex::decode(&vector.nonce).unwrap()),
            (key.id(), true)
        );
        assert_eq!(key.id()[31], key.truncated_id());
        assert!(key.verifies(&token));
        for place in (2..bytes_of_token.len()).step_by(7) {
            let mut changed = bytes_of_token.clone();
            changed[place] ^= 1 << (place % 8);
            assert!(!key.verifies(&Token::from_bytes(&changed).unwrap()), "{place}");
        }
    }
}

#[test]
fn challenges_are_those_of_the_rfc() {
    let digest = |bytes: &[u8]| -> [u8; 32] {
        sha2::Digest::finalize(sha2::Digest::chain_update(<sha2::Sha256 as sha2::Digest>::new(), bytes))
            .into()
    };
    let mut compared = 0;
    for vector in vectors() {
        let challenge = hex::decode(&vector.token_challenge).unwrap();
        let token = Token::from_bytes(&hex::decode(&vector.token).unwrap()).unwrap();
        assert_eq!(*token.challenge_digest(), digest(&challenge));
        // Challenges without a redemption context and without an origin have the form of Apple's.
        let length = usize::from(challenge[3]);
        if challenge.len() == 4 + length + 3 {
            let issuer = std::str::from_utf8(&challenge[4..4 + length]).unwrap();
            let own = Challenge::new(issuer).unwrap();
            assert_eq!((own.as_bytes(), own.digest()), (&challenge[..], *token.challenge_digest()));
            compared += 1;
        }
    }
    assert!(compared > 0);
    for wrong in ["", "a b", "\u{fc}", &"a".repeat(254)] {
        assert!(Challenge::new(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn keys_of_other_kinds_are_refused() {
    let good = hex::decode(&vectors()[0].key).unwrap();
    let key = TokenKey::from_spki(&good).unwrap();
    let modulus = &good[good.len() - 261..good.len() - 5];
    assert_eq!(TokenKey::from_modulus(modulus), Ok(key.clone()));
    // The key has the same id in the form that other programs write.
    let plain = [super::key::PLAIN_HEAD, &good[super::key::HEAD.len()..]].concat();
    assert_eq!(TokenKey::from_spki(&plain), Ok(key));
    let mut small = good.clone();
    small[good.len() - 261] &= 0x7f;
    let mut exponent = good.clone();
    exponent[good.len() - 1] = 3;
    for wrong in
        [&good[1..], &good[..good.len() - 1], &small, &exponent, b"", &[good.clone(), vec![0]].concat()]
    {
        assert!(TokenKey::from_spki(wrong).is_err());
    }
}

#[test]
fn an_issuer_signs_as_the_vectors_of_the_rfc() {
    for vector in vectors() {
        let key = IssuerKey::from_pem(std::str::from_utf8(&hex::decode(&vector.private).unwrap()).unwrap())
            .unwrap();
        assert_eq!(key.public().spki(), hex::decode(&vector.key).unwrap());
        let request = hex::decode(&vector.token_request).unwrap();
        let signed = key.sign(&TokenRequest::from_bytes(&request).unwrap());
        assert_eq!(signed.unwrap()[..], hex::decode(&vector.token_response).unwrap());
        let mut other = request.clone();
        other[2] ^= 1;
        assert_eq!(key.sign(&TokenRequest::from_bytes(&other).unwrap()), Err(RequestError::Key));
        // A message must be below the modulus.
        let modulus = &key.public().spki()[81..337];
        for message in [modulus, &[255; 256]] {
            let request = TokenRequest::from_bytes(&[&request[..3], message].concat()).unwrap();
            assert_eq!(key.sign(&request), Err(RequestError::Message));
        }
        assert_eq!(TokenRequest::from_bytes(&request[1..]), Err(RequestError::Length));
        assert_eq!(TokenRequest::from_bytes(&[&[0, 1], &request[2..]].concat()), Err(RequestError::Type(1)));
    }
}

#[test]
fn a_new_key_is_read_back_and_is_not_printed() {
    let key = IssuerKey::generate().unwrap();
    let pem = key.to_pem().unwrap();
    assert_eq!(IssuerKey::from_pem(&pem).unwrap().public(), key.public());
    assert!(format!("{key:?}").len() < 60, "{key:?}");
    assert!(IssuerKey::from_pem("").is_err() && IssuerKey::from_pem(&pem[1..]).is_err());
}

#[test]
fn headers_of_other_forms_are_refused_with_their_reason() {
    let token = hex::decode(&vectors()[0].token).unwrap();
    let good = header(&token);
    let text = good.strip_prefix("PrivateToken token=").unwrap();
    let read =
        |value: String| Token::from_authorization(value.as_bytes()).map(|token| token.as_bytes().to_vec());
    for same in [format!("privatetoken TOKEN=\"{text}\""), format!("PrivateToken  token={text} ")] {
        assert_eq!(read(same), Ok(token.clone()));
    }
    for other in
        ["", "Private", "Bearer token=", "PrivateToken", "PrivateTokentoken=", "PrivateToken key=AAAA"]
    {
        assert_eq!(read(other.into()), Err(TokenError::Scheme), "{other}");
    }
    let wrong =
        [String::new(), text[1..].into(), format!("{text}="), format!("\"{text}"), text.replace('A', "+")];
    for other in wrong.map(|text| format!("PrivateToken token={text}")) {
        assert_eq!(read(other.clone()), Err(TokenError::Encoding), "{other}");
    }
    let voprf = [&[0, 1][..], &token[2..]].concat();
    assert_eq!(read(header(&voprf)), Err(TokenError::Type(1)));
}

proptest! {
    #[test]
    fn any_bytes_are_a_token_or_an_error(value in proptest::collection::vec(any::<u8>(), 0..600), text in "[A-Za-z0-9_=-]{460,480}") {
        let _ = Token::from_authorization(&value);
        let _ = Token::from_authorization(&[b"PrivateToken token=", &value[..]].concat());
        if let Ok(token) = Token::from_authorization(format!("PrivateToken token={text}").as_bytes()) {
            prop_assert_eq!(Token::from_authorization(header(token.as_bytes()).as_bytes()), Ok(token));
        }
        let _ = TokenKey::from_spki(&value);
    }
}
