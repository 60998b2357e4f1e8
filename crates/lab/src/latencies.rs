//! Distribution of latencies.

/// Latencies in seconds.
pub struct Latencies(Vec<f64>);

impl Latencies {
    /// Creates a distribution from latencies in any order.
    pub fn new(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self(seconds)
    }

    /// Number of latencies.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Mean; zero if there are none.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Least latency that the given share of all latencies does not exceed; zero if there are none.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1).min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    /// Maximum; zero if there are none.
    pub fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_latency_that_occurred() {
        let latencies = Latencies::new((1..=1000).rev().map(f64::from).collect());
        let quantiles = [0.0, 0.5, 0.9, 0.99, 0.999, 1.0].map(|share| latencies.quantile(share));
        assert_eq!(quantiles, [1.0, 500.0, 900.0, 990.0, 999.0, 1000.0]);
        assert_eq!((latencies.mean(), latencies.max(), latencies.count()), (500.5, 1000.0, 1000));
        let one = Latencies::new(vec![7.0]);
        assert_eq!((one.quantile(0.001), one.quantile(0.999)), (7.0, 7.0));
        let none = Latencies::new(Vec::new());
        assert_eq!((none.quantile(0.5), none.mean(), none.max()), (0.0, 0.0, 0.0));
    }
}
