//! Any bytes either decode to a request to a share's server, and encoding the request gives the
//! same bytes, or give an error.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use spirea_wire::{Keyed, ShareLimits, ShareRequest};

fuzz_target!(|bytes: &[u8]| {
    let Some(([max_batch, query_bytes], bytes)) = bytes.split_first_chunk() else { return };
    for keyed in [Keyed::Keys, Keyed::NoKeys] {
        let limits = ShareLimits {
            max_batch: usize::from(*max_batch) % 9 + 1,
            query_bytes: usize::from(*query_bytes) + 1,
            keyed,
        };
        if let Ok(request) = ShareRequest::decode(&Bytes::copy_from_slice(bytes), &limits) {
            assert_eq!(request.encode(), bytes);
            assert!(request.queries.len() <= limits.max_batch);
        }
    }
});
