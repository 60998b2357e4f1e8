//! Check that the other checks launched every kernel of the device's pack.

use spirea_cuda::driver::{Compute, Device};
use spirea_cuda::multiplies_bits;

use super::outcome::Outcome;

/// Name of the check.
pub(super) const NAME: &str = "every kernel was launched";

/// Bytes of shared memory of a block that computes two items of the largest ring of the checks.
const PAIR_BYTES: usize = 195 << 10;

/// Kernels that the backend never launches on a device, by a part of their names, with the reason.
fn unused(device: &Device) -> Vec<(&'static str, &'static str)> {
    let properties = device.properties();
    let warpgroups = properties.compute == Compute::WARPGROUPS;
    [
        (multiplies_bits(properties.compute), "share_fold_bits_mma_", "the device has no products of bits"),
        (warpgroups, "_cores", "the device has no warpgroups"),
        (properties.shared_bytes >= PAIR_BYTES, "ring_two_", "a block has too little shared memory"),
    ]
    .into_iter()
    .filter_map(|(used, part, reason)| (!used).then_some((part, reason)))
    .collect()
}

/// Returns the outcome for a device after the checks. `incomplete` is the reason why some checks
/// did not run to their end.
pub(super) fn outcome(device: &Device, incomplete: Option<String>) -> Outcome {
    let mut never = device.never_launched();
    let all = device.kernels().len();
    let mut detail = String::new();
    for (part, reason) in unused(device) {
        never.retain(|name| !name.contains(part));
        detail += &format!(", all but *{part}*: {reason}");
    }
    judge(&never, all, &detail, incomplete)
}

fn judge(never: &[&str], all: usize, but: &str, incomplete: Option<String>) -> Outcome {
    if never.is_empty() {
        return Outcome::Passed { seconds: 0.0, detail: format!("{all} kernels{but}") };
    }
    let names = format!("{} of {all} kernels: {}", never.len(), never.join(", "));
    match incomplete {
        Some(reason) => Outcome::Skipped(format!("{reason}; not launched are {names}")),
        None => Outcome::Failed { seconds: 0.0, reason: format!("no check launches {names}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_a_launch_fails_unless_checks_were_left_out() {
        let Outcome::Failed { reason, .. } = judge(&["fold", "turn"], 9, "", None) else {
            panic!("kernels were not launched, and nothing failed");
        };
        assert_eq!(reason, "no check launches 2 of 9 kernels: fold, turn");
        let Outcome::Skipped(reason) = judge(&["fold"], 9, "", Some("1 minutes are over".into())) else {
            panic!("checks had no time");
        };
        assert_eq!(reason, "1 minutes are over; not launched are 1 of 9 kernels: fold");
        assert!(matches!(judge(&[], 9, "", None), Outcome::Passed { .. }));
        // A run that was cut short may still have launched every kernel.
        assert!(matches!(judge(&[], 9, "", Some("--filter".into())), Outcome::Passed { .. }));
    }
}
