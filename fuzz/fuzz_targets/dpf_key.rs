//! Any bytes either decode to a key of a domain, and encoding the key gives the same bytes, or give
//! an error. Every key can be evaluated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spirea_dpf::prf::Aes128;
use spirea_dpf::{Bit, Domain, Key, MAX_POINTS, OutputKind, Party, evaluate};

fuzz_target!(|bytes: &[u8]| {
    let Some((head, bytes)) = bytes.split_first_chunk::<9>() else { return };
    let [kind, points @ ..] = *head;
    let output = OutputKind::ALL[usize::from(kind) % OutputKind::ALL.len()];
    let points = u64::from_le_bytes(points) % (MAX_POINTS + 2);
    let Ok(domain) = Domain::new(points, output) else {
        assert!(points == 0 || points > MAX_POINTS);
        return;
    };
    check(domain, bytes);
    // Repeats the bytes to the length of a key, and sets the fixed bits. The result is always a
    // key.
    if !bytes.is_empty() {
        let mut key: Vec<u8> = bytes.iter().copied().cycle().take(domain.key_bytes()).collect();
        let depth = domain.depth() as usize;
        key[0] &= 1;
        key[1] &= !1;
        if !depth.is_multiple_of(8) {
            key[17 + 16 * depth + depth / 8] &= (1 << (depth % 8)) - 1;
        }
        assert!(check(domain, &key));
        assert!(Key::from_bytes(domain, &key[1..]).is_err());
    }
});

/// Returns true if the bytes are a key. Checks that encoding the key gives the same bytes, and that
/// the key can be evaluated.
fn check(domain: Domain, bytes: &[u8]) -> bool {
    let Ok(key) = Key::from_bytes(domain, bytes) else { return false };
    assert_eq!(key.to_bytes(), bytes);
    assert_eq!((key.domain(), key.party()), (domain, Party::try_from(bytes[0]).unwrap()));
    assert_eq!(key.levels().len(), domain.depth() as usize);
    let point = domain.points() - 1;
    match domain.output() {
        OutputKind::Bit => drop(evaluate::<_, Bit>(Aes128, &key, point)),
        OutputKind::U32 => drop(evaluate::<_, u32>(Aes128, &key, point)),
        OutputKind::U64 => drop(evaluate::<_, u64>(Aes128, &key, point)),
        OutputKind::U128 => drop(evaluate::<_, u128>(Aes128, &key, point)),
    }
    true
}
