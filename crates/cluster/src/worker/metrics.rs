//! Metrics of a worker, named like those of a server.

use std::time::Duration;

use prometheus::{
    Encoder as _, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TEXT_FORMAT, TextEncoder,
};
use spirea_engine::KeyUsage;

use crate::status::{ShareState, ShareStatus};

/// The metrics of a worker.
pub(super) struct WorkerMetrics {
    registry: Registry,
    seconds: Histogram,
    batch: Histogram,
    responses: IntCounterVec,
    uploads: IntCounterVec,
    waiting: IntGauge,
    running: IntGauge,
    ready: IntGauge,
    keys_bytes: IntGauge,
    memory: IntGauge,
    /// Number of spans that the collector did not take.
    pub dropped_traces: IntCounter,
}

impl WorkerMetrics {
    /// Creates the metrics of a worker with this status.
    ///
    /// # Errors
    /// If the metrics contradict each other: a defect.
    pub fn new(status: &ShareStatus) -> prometheus::Result<Self> {
        /// Bucket bounds from 0.1 ms to one minute.
        const SECONDS: [f64; 18] = [
            0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
            10.0, 30.0, 60.0,
        ];
        let registry = Registry::new();
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            prometheus::Result::Ok(gauge)
        };
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            let histogram = Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.into()))?;
            registry.register(Box::new(histogram.clone()))?;
            prometheus::Result::Ok(histogram)
        };
        let batches: Vec<f64> = (0..11).map(|power| f64::from(1 << power)).collect();
        let by_status = |name: &str, help: &str| {
            let counters = IntCounterVec::new(Opts::new(name, help), &["status"])?;
            registry.register(Box::new(counters.clone()))?;
            prometheus::Result::Ok(counters)
        };
        let dropped_traces = IntCounter::new(
            "spirea_traces_dropped_total",
            "Traces that the collector did not take in time.",
        )?;
        registry.register(Box::new(dropped_traces.clone()))?;
        let info = IntGaugeVec::new(
            Opts::new("spirea_share_info", "The share that is served."),
            &["database", "version", "share", "shares"],
        )?;
        registry.register(Box::new(info.clone()))?;
        let version: String = status.version.chars().take(16).collect();
        let (share, shares) = (status.share.to_string(), status.shares.to_string());
        info.with_label_values(&[&*status.database, &*version, &*share, &*shares]).set(1);
        gauge("spirea_share_bytes", "Bytes of the database that the share has.")?.set(status.bytes as i64);
        Ok(Self {
            seconds: histogram("spirea_partial_seconds", "Time to compute a batch.", &SECONDS)?,
            batch: histogram("spirea_partial_queries", "Queries of a batch.", &batches)?,
            responses: by_status(
                "spirea_partial_responses_total",
                "Batches by the status of their response.",
            )?,
            uploads: by_status(
                "spirea_key_uploads_total",
                "Uploads of clients' evaluation keys by the status of their response.",
            )?,
            waiting: gauge("spirea_queue_requests", "Batches that wait for their turn.")?,
            running: gauge("spirea_answering_requests", "Batches that are being computed.")?,
            ready: gauge("spirea_ready", "1 if the share takes batches.")?,
            keys_bytes: gauge("spirea_keys_bytes", "Bytes of clients' evaluation keys in memory.")?,
            memory: gauge(
                "spirea_request_memory_bytes",
                "Bytes reserved for requests: bodies, computing and partials.",
            )?,
            dropped_traces,
            registry,
        })
    }

    /// Records a batch.
    pub fn computed(&self, queries: usize, time: Duration) {
        self.batch.observe(queries as f64);
        self.seconds.observe(time.as_secs_f64());
    }

    /// Counts the status of a response to a batch.
    pub fn responded(&self, status: u16) {
        self.responses.with_label_values(&[&status.to_string()]).inc();
    }

    /// Counts the status of a response to an upload of keys.
    pub fn uploaded(&self, status: u16) {
        self.uploads.with_label_values(&[&status.to_string()]).inc();
    }

    /// Formats all metrics as text; returns the content type with the text. `memory` is the number
    /// of bytes reserved for requests.
    pub fn render(&self, status: &ShareStatus, keys: KeyUsage, memory: u64) -> (&'static str, String) {
        self.waiting.set(status.queue as i64);
        self.running.set(status.running as i64);
        self.ready.set(i64::from(status.state == ShareState::Ready));
        self.keys_bytes.set(keys.memory.bytes as i64);
        self.memory.set(memory as i64);
        let mut text = Vec::new();
        // Writing to memory does not fail, and families come from the registry, which checked their
        // names.
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "the metrics cannot be written");
        }
        (TEXT_FORMAT, String::from_utf8_lossy(&text).into_owned())
    }
}
