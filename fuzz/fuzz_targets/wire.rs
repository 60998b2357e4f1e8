//! Any bytes decode to a message of the envelope, or give an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spirea_wire::{Config, KeysResponse, KeysUpload, Lengths, Limits, Listing, Refusal, Request, Response};

fuzz_target!(|bytes: &[u8]| {
    // Short queries, answers and keys, so that mutations reach valid messages.
    let base = Lengths { query_bytes: 8, answer_bytes: 4, keys_bytes: 6 };
    let delta = Lengths { query_bytes: 4, answer_bytes: 2, keys_bytes: 3 };
    let body = bytes::Bytes::copy_from_slice(bytes);
    for delta in [None, Some(delta)] {
        let limits = Limits { base, delta, max_batch: 3 };
        if let Ok((request, keys)) = Request::decode_with_keys(body.clone(), &limits) {
            assert_eq!(Request::version(bytes), Ok(request.version));
            let sent = keys.iter().map(|(part, keys)| (*part, &keys[..]));
            let again = Request::with_keys(&request.encode(), sent).into();
            assert_eq!(Request::decode_with_keys(again, &limits), Ok((request, keys)));
        }
        if let Ok(response) = Response::decode(body.clone(), &limits, 2) {
            assert_eq!(Response::decode(response.encode().into(), &limits, 2), Ok(response));
        }
        if let Ok(upload) = KeysUpload::decode(body.clone(), &limits) {
            let encoded = match &upload {
                KeysUpload::Whole(whole) => whole.encode(),
                KeysUpload::Piece(piece) => piece.encode(),
            };
            assert_eq!(KeysUpload::decode(encoded.into(), &limits), Ok(upload));
        }
    }
    if let Ok(receipt) = KeysResponse::decode(body.clone()) {
        assert_eq!(KeysResponse::decode(receipt.encode().into()), Ok(receipt));
    }
    if let Ok(config) = Config::decode(body.clone()) {
        assert_eq!(Config::decode(config.encode().into()), Ok(config));
    }
    if let Ok(refusal) = Refusal::decode(body.clone()) {
        assert_eq!(Refusal::decode(refusal.encode().into()), Ok(refusal));
    }
    if let Ok(listing) = Listing::decode(body) {
        assert_eq!(Listing::decode(listing.encode().into()), Ok(listing));
    }
});
