//! Planted faults, which the check must find.

use std::hint::black_box;

use spirea_math::random::SecretRng;

/// Executes a branch or an address that depends on a secret.
pub fn run(fault: &str) {
    let mut rng = SecretRng::from_os().expect("the system has randomness");
    let secret = rng.next_u64() & 0xff;
    match fault {
        "branch" => {
            if black_box(secret) == 7 {
                println!("seven");
            }
        }
        "address" => {
            let table = black_box([1u8; 256]);
            black_box(table[(secret & 0xff) as usize]);
        }
        "slice" => {
            let unit = black_box(vec![0u8; 4096]);
            black_box(&unit[secret as usize..][..100]);
        }
        _ => panic!("no such fault: {fault}"),
    }
}
