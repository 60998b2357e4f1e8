//! Time of finding a key in a bucket: it must tell as little as possible about the key's presence.

#![expect(clippy::print_stdout, reason = "the figures are what a run is for")]

use std::time::{Duration, Instant};

use spirea_math::random::SecretRng;
use spirea_protocols::keyword::{Bucket, TAG_BYTES, find};

/// Returns the share of right guesses by the best threshold, for times with and without a key.
fn best_guess(mut times: Vec<(Duration, bool)>) -> f64 {
    times.sort_unstable();
    let (absent, all) = (times.iter().filter(|(_, present)| !present).count(), times.len());
    // Number of right guesses, if all times below the threshold are taken for those of absent keys.
    let mut right = all - absent;
    let mut best = right.max(all - right);
    for (_, present) in times {
        if present {
            right -= 1
        } else {
            right += 1
        }
        best = best.max(right).max(all - right);
    }
    best as f64 / all as f64
}

#[test]
#[ignore = "it measures a figure of docs/soundness.md"]
fn time_of_finding_present_and_absent_keys() {
    const TRIES: usize = 2000;
    let mut bucket = Bucket::default();
    (0..4).for_each(|tag| bucket.push(&[tag; TAG_BYTES], &[7; 100_000]));
    let payload = bucket.payload();
    let mut rng = SecretRng::deterministic_for_tests(1);
    let mut coin = || {
        let mut byte = [0];
        rng.fill(&mut byte);
        byte[0] & 1 == 1
    };
    let times: Vec<(Duration, bool)> = (0..TRIES)
        .map(|_| {
            let present = coin();
            let tag = [if present { 2 } else { 9 }; TAG_BYTES];
            let began = Instant::now();
            let found = find(&payload, &tag).unwrap();
            let took = began.elapsed();
            assert_eq!(found.is_some(), present);
            (took, present)
        })
        .collect();
    let median = |wanted: bool| {
        let mut of: Vec<Duration> =
            times.iter().filter(|(_, present)| *present == wanted).map(|(time, _)| *time).collect();
        of.sort_unstable();
        of[of.len() / 2]
    };
    let blind = times.iter().map(|(time, _)| (*time, coin())).collect();
    println!(
        "present {:?}, absent {:?}; the best threshold is right in {:.1}% of {TRIES} tries, and in {:.1}% if \
         the times are of random keys",
        median(true),
        median(false),
        1e2 * best_guess(times.clone()),
        1e2 * best_guess(blind)
    );
}
