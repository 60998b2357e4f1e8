//! Check that the other checks launched every kernel of the device's pack.

use spirea_cuda::driver::Device;
use spirea_cuda::multiplies_bits;

use super::outcome::Outcome;

/// Name of the check.
pub(super) const NAME: &str = "every kernel was launched";

/// Kernels that the backend never launches on a device, by the start of their names, with the
/// reason.
fn unused(device: &Device) -> Option<(&'static str, &'static str)> {
    let compute = device.properties().compute;
    (!multiplies_bits(compute)).then_some(("share_fold_bits_mma_", "the device has no products of bits"))
}

/// Returns the outcome for a device after the checks. `incomplete` is the reason why some checks
/// did not run to their end.
pub(super) fn outcome(device: &Device, incomplete: Option<String>) -> Outcome {
    let mut never = device.never_launched();
    let all = device.kernels().len();
    let mut detail = String::new();
    if let Some((prefix, reason)) = unused(device) {
        never.retain(|name| !name.starts_with(prefix));
        detail = format!(", all but {prefix}*: {reason}");
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
        // A run that was cut short can have launched everything.
        assert!(matches!(judge(&[], 9, "", Some("--filter".into())), Outcome::Passed { .. }));
    }
}
