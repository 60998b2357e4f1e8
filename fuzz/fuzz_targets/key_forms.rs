//! Any key is normalised or refused. Normalising a normalised key does not change it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spirea_normalise::{DomainKeys, form, normalised};
use spirea_protocols::table::KeyStep;

fuzz_target!(|key: &[u8]| {
    let forms = KeyStep::ALL.map(|(_, step)| vec![step]);
    let texts = [KeyStep::Trim, KeyStep::Nfc, KeyStep::Lower].to_vec();
    for steps in forms.into_iter().chain([texts]) {
        let form = form(steps, None).expect("these are forms");
        if let Ok(once) = normalised(&form, key) {
            assert_eq!(normalised(&form, &once), Ok(once));
        }
    }
    if let Ok(name) = str::from_utf8(key) {
        let keys = DomainKeys::new(&[name], 4).expect("the system gives randomness");
        assert!(keys.keys().len() == 4 && keys.names()[0].names.len() <= 4);
    }
});
