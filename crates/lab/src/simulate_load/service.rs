//! Service times of batches.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use spirea_backend::{Backend as _, Residence};
use spirea_console::threads::Threads;
use spirea_cpu::CpuBackend;
use spirea_math::random::SecretRng;
use spirea_protocols::Query;
use spirea_store::{Silent, Snapshot};

use crate::bench::report::median_seconds;

/// Number of timed runs of a batch, after one warm-up run.
const RUNS: usize = 5;
/// Number of clients with their own keys among the queries of a timed batch.
const CLIENTS: usize = 4;

/// Time of a batch as a function of its size.
#[derive(Clone, Debug)]
pub struct Service {
    /// Queries and seconds, by ascending size.
    points: Vec<(usize, f64)>,
    origin: String,
}

impl Service {
    /// Parses a text such as `1=0.035,32=0.4`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut points: Vec<(usize, f64)> = Vec::new();
        for part in text.split(',') {
            let point = part.split_once('=').and_then(|(queries, seconds)| {
                Some((queries.trim().parse().ok()?, seconds.trim().parse().ok()?))
            });
            match point {
                Some((queries, seconds)) if queries > 0 && seconds > 0.0 && f64::is_finite(seconds) => {
                    points.push((queries, seconds));
                }
                _ => return Err(format!("{part:?} is not queries=seconds, such as 32=0.4")),
            }
        }
        points.sort_by_key(|point| point.0);
        if let Some(twice) = points.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("batches of {} queries are given twice", twice[0].0));
        }
        Ok(Self { points, origin: "with batches as long as given".into() })
    }

    /// Times batches of a snapshot's database on this machine. The batch sizes are 1, 2, 4 and so
    /// on, up to the smaller of the database's largest batch and `most`.
    pub fn measure(folder: &Path, wanted: Threads, most: usize) -> anyhow::Result<Self> {
        let snapshot = Snapshot::open(folder)?;
        snapshot.verify(&Silent)?;
        let protocol = &snapshot.manifest().protocol;
        let backend = Arc::new(CpuBackend::new(wanted.count())?);
        let opening = protocol.openings(Residence::Copied)[0];
        let server = protocol.on().open(&backend, snapshot.files(), opening)?;
        let hint = std::fs::read(snapshot.hint_path())
            .with_context(|| format!("{}: cannot be read", snapshot.hint_path().display()))?;
        let mut rng = SecretRng::from_os()?;
        let largest = server.max_batch().min(most).max(1);
        let mut prepared = Vec::new();
        for _ in 0..largest.min(CLIENTS) {
            let client = protocol.client(&hint, &[], &mut rng)?;
            let keys = client.keys().map(|keys| server.prepare_keys(keys.bytes())).transpose()?;
            let mut queries = client.query(rng.next_u64() % protocol.records(), &mut rng)?.queries;
            prepared.push((queries.swap_remove(0), keys));
        }
        let sizes = std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|&size| size < largest);
        let mut points = Vec::new();
        for size in sizes.chain([largest]) {
            let queries = prepared.iter().map(|(bytes, keys)| Query { bytes, keys: keys.as_ref() });
            let batch: Vec<Query<'_>> = queries.cycle().take(size).collect();
            let seconds = median_seconds(RUNS, || {
                std::hint::black_box(server.answer(&batch)?);
                Ok(())
            })?;
            points.push((size, seconds));
        }
        ensure!(points.iter().all(|point| point.1 > 0.0), "batches are too quick for this machine's clock");
        let origin = format!(
            "with batches of {} ({}) as timed on {} with {} thread(s)",
            snapshot.manifest().name,
            protocol.name,
            backend.name(),
            backend.threads()
        );
        Ok(Self { points, origin })
    }

    /// Returns a description of the source of the times.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Size of the largest batch with a known time.
    pub fn largest(&self) -> usize {
        self.points[self.points.len() - 1].0
    }

    /// Returns the time of a batch, by linear interpolation; beyond the last point by extrapolation
    /// from the last two.
    pub fn time(&self, queries: usize) -> Duration {
        let after = self.points.partition_point(|point| point.0 < queries);
        let seconds = match self.points[..] {
            [(_, seconds)] => seconds,
            _ => {
                let right = after.clamp(1, self.points.len() - 1);
                let (a, b) = (self.points[right - 1], self.points[right]);
                let share = (queries as f64 - a.0 as f64) / (b.0 - a.0) as f64;
                // Extrapolation before the first point may give too small a time, even a negative
                // one.
                (a.1 + share * (b.1 - a.1)).max(0.01 * a.1.min(b.1))
            }
        };
        Duration::from_secs_f64(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lie_on_lines_between_what_is_given() {
        let service = Service::parse("32=0.4, 1=0.035,8=0.1").unwrap();
        let time = |queries| (service.time(queries).as_secs_f64() * 1e6).round();
        assert_eq!([1, 8, 20, 32, 44].map(time), [35_000.0, 100_000.0, 250_000.0, 400_000.0, 550_000.0]);
        assert_eq!(service.largest(), 32);
        let constant = Service::parse("16=0.2").unwrap();
        assert_eq!([1, 64].map(|queries| constant.time(queries)), [Duration::from_millis(200); 2]);
        let falling = Service::parse("10=0.01,11=1").unwrap();
        assert!(falling.time(1) > Duration::ZERO);
        for wrong in ["", "1", "0=1", "1=0", "1=-1", "1=inf", "a=1", "1=1,1=2"] {
            assert!(Service::parse(wrong).is_err(), "{wrong}");
        }
    }
}
