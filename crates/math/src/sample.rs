//! Samplers of secrets and noise. No branch and no index depends on a sample.

use std::sync::LazyLock;

use crate::random::SecretRng;

/// Samples from {-1, 0, 1}: floor(3 u / 2^64) - 1, at a distance below 2^-62 from uniform.
#[inline]
pub fn ternary(rng: &mut SecretRng) -> i8 {
    ((u128::from(rng.next_u64()) * 3) >> 64) as i8 - 1
}

/// A discrete Gaussian of a given width, by inversion of its cumulative table.
#[derive(Debug)]
pub struct Gaussian {
    /// Entry k: 2^64 times the probability that the magnitude exceeds k.
    tail: Vec<u64>,
}

/// The noise of every LWE query: standard deviation 3.2.
pub static LWE_NOISE: LazyLock<Gaussian> = LazyLock::new(|| Gaussian::new(3.2));

impl Gaussian {
    /// Creates a sampler of the distribution on the integers proportional to exp(-x^2 / (2
    /// sigma^2)), truncated where its tail falls below 2^-64.
    pub fn new(sigma: f64) -> Self {
        let weight = |k: u32| (-f64::from(k).powi(2) / (2.0 * sigma * sigma)).exp();
        let furthest = (14.0 * sigma).ceil() as u32;
        // Sums from the far end, so that small terms are added before large ones.
        let beyond: Vec<f64> = (1..=furthest)
            .rev()
            .scan(0.0, |sum, k| {
                *sum += 2.0 * weight(k);
                Some(*sum)
            })
            .collect();
        let total = 1.0 + beyond.last().copied().unwrap_or(0.0);
        let tail = beyond
            .iter()
            .rev()
            .map(|sum| (sum / total * 2f64.powi(64)) as u64)
            .take_while(|&t| t > 0)
            .collect();
        Self { tail }
    }

    /// Returns one sample; its sign takes a separate random bit. Time and memory accesses do not
    /// depend on the sample.
    #[inline]
    pub fn sample(&self, rng: &mut SecretRng) -> i32 {
        let uniform = rng.next_u64();
        let sign = rng.next_u64() as i32 & 1;
        let magnitude: i32 = self.tail.iter().map(|&threshold| i32::from(uniform < threshold)).sum();
        (magnitude ^ -sign) + sign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ternary_values_are_uniform() {
        let mut rng = SecretRng::deterministic_for_tests(1);
        let mut counts = [0i32; 3];
        for _ in 0..300_000 {
            counts[(ternary(&mut rng) + 1) as usize] += 1;
        }
        // Allows six standard deviations of a binomial distribution with p = 1/3.
        assert!(counts.iter().all(|&c| (c - 100_000).abs() < 6 * 258), "{counts:?}");
    }

    #[test]
    fn gaussian_has_its_moments_and_shape() {
        let gaussian = Gaussian::new(3.2);
        let mut rng = SecretRng::deterministic_for_tests(2);
        let samples: Vec<f64> = (0..400_000).map(|_| f64::from(gaussian.sample(&mut rng))).collect();
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let variance = samples.iter().map(|x| x * x).sum::<f64>() / count;
        let kurtosis = samples.iter().map(|x| x.powi(4)).sum::<f64>() / count / (variance * variance);
        assert!(mean.abs() < 0.03, "mean {mean}");
        assert!((variance / (3.2 * 3.2) - 1.0).abs() < 0.015, "variance {variance}");
        assert!((kurtosis - 3.0).abs() < 0.06, "kurtosis {kurtosis}");
        let zeros = samples.iter().filter(|&&x| x == 0.0).count() as f64 / count;
        assert!((zeros - 0.12467).abs() < 0.004, "share of zeros {zeros}");
    }

    #[test]
    fn the_tail_ends_where_its_probability_does() {
        let gaussian = Gaussian::new(3.2);
        assert!(gaussian.tail.is_sorted_by(|a, b| a > b));
        // exp(-x^2 / 20.48) < 2^-64 for x of 30.1 and more.
        assert!((29..=31).contains(&gaussian.tail.len()), "{}", gaussian.tail.len());
    }
}
