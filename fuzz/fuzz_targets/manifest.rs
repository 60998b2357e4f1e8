//! Any bytes are a manifest in canonical form or an error, and what is accepted is consistent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spirea_store::Manifest;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((manifest, version)) = Manifest::from_bytes(bytes) {
        assert_eq!(manifest.to_bytes(), bytes);
        assert_eq!(manifest.version(), version);
    }
    // Past the hash, which no fuzzer guesses: the members as they come.
    let Ok(manifest) = serde_json::from_slice::<Manifest>(bytes) else { return };
    let wrapped = manifest.to_bytes();
    match (manifest.validate(), Manifest::from_bytes(&wrapped)) {
        (Ok(()), Ok((again, version))) => {
            assert_eq!((&again, version), (&manifest, manifest.version()));
            let (table, protocol) = (&manifest.table, &manifest.protocol);
            assert_eq!(protocol.record_bytes(), table.record_bytes());
            assert!(u128::from(table.records) * table.record_bytes() as u128 <= u128::from(manifest.matrix.bytes));
            assert!(manifest.padding().is_finite() && manifest.expansion().is_finite());
        }
        (Err(_), Err(_)) => {}
        (valid, read) => panic!("validate: {valid:?}, from_bytes: {read:?}"),
    }
});
