//! Any bytes either decode to parameters within the bounds checked below, or give an error. Queries
//! and keys of any bytes decode or fail.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spirea_lattice::RingSet;
use spirea_lattice::rlwe::{
    Conversion, KeyShape, parse_query, parse_rounded_query, query_bytes, rounded_query_bytes,
};
use spirea_protocols::registry::ProtocolParams;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(params) = ProtocolParams::from_json(bytes) {
        assert_eq!(ProtocolParams::from_json(&params.to_json()).unwrap(), params);
        assert!(params.failure.is_none_or(|failure| failure.log2 <= -60.0));
        assert!(params.security_bits >= 127.0);
        let (sizes, stored) = (params.sizes, params.stored);
        assert!(params.bins > 0 && (params.bins == 1 || params.name.starts_with("dpf")));
        assert!(sizes.query_bytes > 0 && sizes.answer_bytes > 0 && params.memory_bytes > 0);
        for index in [0, params.records() / 2, params.records() - 1] {
            for byte in [0, params.record_bytes() - 1] {
                assert!(stored.offset(index, byte) < stored.bytes());
            }
        }
        assert!(params.work.iter().all(|work| work.count > 0.0));
    }
    // Repeats the bytes to the lengths that the parsers require.
    if let Some(first) = bytes.first() {
        let set = RingSet::ALL[usize::from(*first) % RingSet::ALL.len()];
        let repeated = |length| -> Vec<u8> { bytes.iter().copied().cycle().take(length).collect() };
        if let Ok(words) = parse_query(set, &repeated(query_bytes(set))) {
            assert_eq!(words.len(), 2 * set.ring().words());
        }
        if set.dropped_bits() > 0 {
            let words =
                parse_rounded_query(set, &repeated(rounded_query_bytes(set))).expect("any bytes are one");
            assert_eq!(words.len(), 2 * set.ring().words());
        }
        let shape = KeyShape { set, levels: 1, rotations: None, conversion: Conversion::None };
        let keys = repeated(shape.bytes());
        let _ = shape.parse(&keys);
        assert!(shape.parse(&keys[1..]).is_err());
    }
});
