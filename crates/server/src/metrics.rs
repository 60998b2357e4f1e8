//! Metrics for Prometheus. Labels carry names that the operator chose, endpoints and status codes.
//! Nothing reveals a query or distinguishes one client from another.

use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use prometheus::proto::MetricFamily;
use prometheus::{
    CounterVec, Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TEXT_FORMAT, TextEncoder,
};
use spirea_engine::keys::Amount;
use spirea_engine::{Answers, Engine, KeyEvents, KeyUsage, State, Status};
use spirea_protocols::Version;
use spirea_wire::Code;

use crate::apple::Apple;
use crate::library::{FailedCompactions, Library};
use crate::logs::LostLines;
use crate::memory::Memory;
use crate::refused::name;

/// The metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    received: IntCounterVec,
    sent: IntCounterVec,
    unknown_keys: IntCounterVec,
    refusals: IntCounterVec,
    reloads: IntCounterVec,
    expiry: IntGauge,
    batch: HistogramVec,
    answer_seconds: HistogramVec,
    wait_seconds: HistogramVec,
    latency_seconds: HistogramVec,
    steps: CounterVec,
    waiting: IntGauge,
    answering: IntGauge,
    body_memory: IntGauge,
    keys: IntGaugeVec,
    keys_bytes: IntGaugeVec,
    /// Private tokens of Apple's clients, by outcome.
    pub private_tokens: IntCounterVec,
    spent_tokens: IntGaugeVec,
    gateway_requests: IntCounterVec,
    key_lookups: IntCounterVec,
    key_departures: IntCounterVec,
    pub in_flight: IntGauge,
    pub connections: IntGauge,
    pub connection_memory: IntGauge,
    pub dropped_traces: IntCounter,
    pub turned_away: IntCounter,
    lost_lines: IntCounterVec,
    ready: IntGauge,
    databases: IntGaugeVec,
    open: IntGaugeVec,
    former_opened: IntCounter,
    served: IntGaugeVec,
    behind: IntGaugeVec,
    refused: IntGaugeVec,
    failed_compactions: IntCounterVec,
    compaction_failed: IntGaugeVec,
    served_version: IntGaugeVec,
    expected_version: IntGaugeVec,
    /// Lock held while counters of other parts are read and rendered.
    rendering: Mutex<()>,
}

/// The metrics of one database.
pub(crate) struct Measured {
    pub received: IntCounter,
    /// Requests that named keys unknown to the server.
    pub unknown_keys: IntCounter,
    batch: Histogram,
    answer_seconds: Histogram,
    wait_seconds: Histogram,
    latency_seconds: Histogram,
    database: String,
    steps: CounterVec,
}

impl Measured {
    /// Notes an answered request.
    pub fn answered(&self, answers: &Answers) {
        self.wait_seconds.observe(answers.waited.as_secs_f64());
        self.latency_seconds.observe((answers.waited + answers.compute).as_secs_f64());
        if answers.counts {
            self.batch.observe(answers.batch as f64);
            self.answer_seconds.observe(answers.compute.as_secs_f64());
            for (step, time) in &*answers.steps {
                self.steps.with_label_values(&[&*self.database, step]).inc_by(time.as_secs_f64());
            }
        }
    }
}

/// Raises a counter to a value counted elsewhere.
fn raise(counter: &IntCounter, value: u64) {
    counter.inc_by(value.saturating_sub(counter.get()));
}

impl Metrics {
    pub fn new() -> prometheus::Result<Self> {
        /// Upper bounds of the histogram buckets, from a tenth of a millisecond to a minute.
        const SECONDS: [f64; 18] = [
            0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
            10.0, 30.0, 60.0,
        ];
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counters.clone()))?;
            prometheus::Result::Ok(counters)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            prometheus::Result::Ok(gauge)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauges.clone()))?;
            prometheus::Result::Ok(gauges)
        };
        let histograms = |name: &str, help: &str, buckets: &[f64]| {
            let options = HistogramOpts::new(name, help).buckets(buckets.into());
            let histograms = HistogramVec::new(options, &["database"])?;
            registry.register(Box::new(histograms.clone()))?;
            prometheus::Result::Ok(histograms)
        };
        let steps = CounterVec::new(
            Opts::new("spirea_step_seconds_total", "Time of the protocols' steps."),
            &["database", "step"],
        )?;
        registry.register(Box::new(steps.clone()))?;
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            prometheus::Result::Ok(counter)
        };
        let batches: Vec<f64> = (0..11).map(|power| f64::from(1 << power)).collect();
        let metrics = Self {
            requests: counters(
                "spirea_requests_total",
                "Requests by database, endpoint and status code.",
                &["database", "endpoint", "status"],
            )?,
            received: counters("spirea_received_bytes_total", "Bytes of requests' bodies.", &["database"])?,
            sent: counters(
                "spirea_sent_bytes_total",
                "Bytes of responses' bodies, as announced.",
                &["database"],
            )?,
            unknown_keys: counters(
                "spirea_unknown_keys_total",
                "Requests that were refused since their evaluation keys are not here, or no longer.",
                &["database"],
            )?,
            refusals: counters("spirea_refusals_total", "Refused requests by cause.", &["code"])?,
            reloads: counters(
                "spirea_reloads_total",
                "How often a file was read again, by what it holds and whether it could be used.",
                &["what", "outcome"],
            )?,
            expiry: gauge(
                "spirea_certificate_expiry_timestamp_seconds",
                "When the certificate expires, in seconds since 1970; 0 without TLS.",
            )?,
            batch: histograms("spirea_batch_queries", "Queries that were computed together.", &batches)?,
            answer_seconds: histograms("spirea_answer_seconds", "Time to compute a batch.", &SECONDS)?,
            latency_seconds: histograms(
                "spirea_latency_seconds",
                "Time from a request's admission to its answers.",
                &SECONDS,
            )?,
            wait_seconds: histograms(
                "spirea_wait_seconds",
                "Time that a request waited for its batch.",
                &SECONDS,
            )?,
            steps,
            waiting: gauge("spirea_queue_requests", "Requests that wait for their turn.")?,
            answering: gauge("spirea_answering_requests", "Requests that are being computed.")?,
            body_memory: gauge(
                "spirea_body_memory_bytes",
                "Memory taken by bodies that are received or wait.",
            )?,
            keys: gauges(
                "spirea_keys",
                "Clients' evaluation keys: prepared in memory, as bytes on disk, and those of Apple's clients.",
                &["place"],
            )?,
            keys_bytes: gauges("spirea_keys_bytes", "Bytes of clients' evaluation keys.", &["place"])?,
            private_tokens: counters(
                "spirea_private_tokens_total",
                "Private tokens of Apple's clients, by outcome: spent, issued, or why a request was refused.",
                &["outcome"],
            )?,
            spent_tokens: gauges(
                "spirea_spent_tokens",
                "Spent private tokens that are kept, by tier.",
                &["tier"],
            )?,
            gateway_requests: counters(
                "spirea_gateway_requests_total",
                "Requests to the OHTTP gateway, by outcome: answered, or why they were not opened.",
                &["outcome"],
            )?,
            key_lookups: counters(
                "spirea_key_lookups_total",
                "Requests that name evaluation keys, by where these were: memory, disk, shared by another server, or unknown.",
                &["place"],
            )?,
            key_departures: counters(
                "spirea_key_departures_total",
                "Evaluation keys that left, by place and whether they were evicted for others or expired.",
                &["place", "cause"],
            )?,
            in_flight: gauge("spirea_in_flight_requests", "HTTP requests that have no response yet.")?,
            connections: gauge("spirea_connections", "Open connections.")?,
            connection_memory: gauge(
                "spirea_connection_memory_bytes",
                "Memory reserved for connections: buffers, heads, windows and responses.",
            )?,
            dropped_traces: counter(
                "spirea_traces_dropped_total",
                "Traces that the collector did not take in time.",
            )?,
            turned_away: counter(
                "spirea_connections_turned_away_total",
                "Connections that were closed at once since their address had as many, or as much memory, as one may have.",
            )?,
            lost_lines: counters(
                "spirea_log_lines_lost_total",
                "Lines of the log that standard error refused (failed) or did not take in time (dropped).",
                &["cause"],
            )?,
            ready: gauge("spirea_ready", "1 if all databases answer.")?,
            databases: gauges("spirea_database_ready", "1 if the database answers.", &["database"])?,
            open: gauges(
                "spirea_versions_open",
                "Versions of a database that answer without being opened first.",
                &["database"],
            )?,
            former_opened: counter(
                "spirea_former_versions_opened_total",
                "Deltas of former versions that were opened because a client asked for them.",
            )?,
            served: gauges("spirea_versions_served", "Versions of a database that answer.", &["database"])?,
            behind: gauges(
                "spirea_version_behind",
                "1 while the newest version that answers is not the one that was published last.",
                &["database"],
            )?,
            refused: gauges(
                "spirea_version_refused",
                "1 while a newer version was refused, or following another server fails.",
                &["database"],
            )?,
            failed_compactions: counters(
                "spirea_compactions_failed_total",
                "Compactions of a database that failed.",
                &["database"],
            )?,
            compaction_failed: gauges(
                "spirea_compaction_failed",
                "1 if the last compaction of a database failed: its delta stays and grows.",
                &["database"],
            )?,
            served_version: gauges(
                "spirea_version_served_info",
                "The newest version that answers, by its first digits.",
                &["database", "version"],
            )?,
            expected_version: gauges(
                "spirea_version_expected_info",
                "The version that was published last, by its first digits.",
                &["database", "version"],
            )?,
            rendering: Mutex::default(),
            registry: Registry::default(),
        };
        gauges("spirea_build_info", "The server's version.", &["version"])?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        Ok(Self { registry, ..metrics })
    }

    /// Counts a refusal.
    pub fn refused(&self, code: Code) {
        self.refusals.with_label_values(&[&name(code).to_ascii_lowercase()]).inc();
    }

    /// Counts a reload of a file, successful or not.
    pub fn reloaded(&self, what: &str, used: bool) {
        self.reloads.with_label_values(&[what, if used { "used" } else { "kept the old" }]).inc();
    }

    /// Counts a response. `database` is empty if the request named no existing database.
    pub fn responded(&self, database: &str, endpoint: &str, status: u16, bytes: u64) {
        self.requests.with_label_values(&[database, endpoint, &status.to_string()]).inc();
        self.sent.with_label_values(&[database]).inc_by(bytes);
    }

    /// Counts a request to the gateway whose body has arrived.
    pub fn through_gateway(&self, outcome: &str) {
        self.gateway_requests.with_label_values(&[outcome]).inc();
    }

    /// Returns the metrics of an existing database.
    pub fn of(&self, database: &str) -> Measured {
        let label = &[database];
        Measured {
            received: self.received.with_label_values(label),
            unknown_keys: self.unknown_keys.with_label_values(label),
            batch: self.batch.with_label_values(label),
            answer_seconds: self.answer_seconds.with_label_values(label),
            wait_seconds: self.wait_seconds.with_label_values(label),
            latency_seconds: self.latency_seconds.with_label_values(label),
            database: database.into(),
            steps: self.steps.clone(),
        }
    }

    /// Returns all metrics as text, and their content type.
    pub fn render(
        &self,
        engine: &Engine,
        library: Option<&Library>,
        bodies: &Memory,
        expiry: Option<SystemTime>,
        apple: &Apple,
        added: Vec<MetricFamily>,
    ) -> (&'static str, String) {
        // The lock guards no data of its own.
        let _rendering = self.rendering.lock();
        let load = engine.load();
        self.waiting.set(load.waiting as i64);
        self.answering.set(load.running as i64);
        self.body_memory.set(bodies.taken() as i64);
        let expiry = expiry.and_then(|expiry| expiry.duration_since(UNIX_EPOCH).ok());
        self.expiry.set(expiry.map_or(0, |expiry| expiry.as_secs() as i64));
        let KeyUsage { memory, disk } = engine.key_usage();
        for (place, amount) in [("memory", memory), ("disk", disk)] {
            self.keys.with_label_values(&[place]).set(amount.sets as i64);
            self.keys_bytes.with_label_values(&[place]).set(amount.bytes as i64);
        }
        let Amount { sets, bytes } = apple.keys.amount();
        self.keys.with_label_values(&["apple"]).set(sets as i64);
        self.keys_bytes.with_label_values(&["apple"]).set(bytes as i64);
        // A tier may have left the file.
        self.spent_tokens.reset();
        for (tier, tokens) in apple.tokens.iter().flat_map(|tokens| tokens.spent()) {
            self.spent_tokens.with_label_values(&[&tier]).set(tokens as i64);
        }
        self.count_keys(engine.key_events());
        let LostLines { failed, dropped } = LostLines::now();
        for (cause, value) in [("failed", failed), ("dropped", dropped)] {
            raise(&self.lost_lines.with_label_values(&[cause]), value);
        }
        for (database, FailedCompactions { count, last }) in
            library.into_iter().flat_map(Library::failed_compactions)
        {
            raise(&self.failed_compactions.with_label_values(&[database]), count);
            self.compaction_failed.with_label_values(&[database]).set(i64::from(last.is_some()));
        }
        raise(&self.former_opened, library.map_or(0, |library| library.former_opened()));
        let statuses = engine.statuses();
        self.describe_versions(&statuses);
        let ready = statuses.iter().all(|status| matches!(status.state, State::Ready(_)));
        self.ready.set(i64::from(ready));
        let mut families = self.registry.gather();
        families.extend(added);
        let mut text = Vec::new();
        // Writing to memory does not fail, and the registry has checked the names of its families.
        if let Err(error) = TextEncoder::new().encode(&families, &mut text) {
            tracing::error!(%error, "the metrics cannot be written");
        }
        (TEXT_FORMAT, String::from_utf8_lossy(&text).into_owned())
    }

    /// Records the counters of the key registry.
    fn count_keys(
        &self,
        KeyEvents { from_memory, from_disk, from_shared, unknown, memory, disk }: KeyEvents,
    ) {
        for (place, value) in
            [("memory", from_memory), ("disk", from_disk), ("shared", from_shared), ("unknown", unknown)]
        {
            raise(&self.key_lookups.with_label_values(&[place]), value);
        }
        for (place, departures) in [("memory", memory), ("disk", disk)] {
            for (cause, value) in [("evicted", departures.evicted), ("expired", departures.expired)] {
                raise(&self.key_departures.with_label_values(&[place, cause]), value);
            }
        }
    }

    /// Records which versions answer, and which ones should.
    fn describe_versions(&self, statuses: &[Status]) {
        self.served_version.reset();
        self.expected_version.reset();
        for Status { name, version: expected, state, refused } in statuses {
            let served = match state {
                State::Ready(versions) => &versions[..],
                State::Loading | State::Failed(_) => &[],
            };
            let newest = served.first().map(|served| *served.version());
            self.databases.with_label_values(&[name]).set(i64::from(newest.is_some()));
            self.served.with_label_values(&[name]).set(served.len() as i64);
            let open = served.iter().filter(|version| version.is_open()).count();
            self.open.with_label_values(&[name]).set(open as i64);
            self.behind.with_label_values(&[name]).set(i64::from(newest != Some(*expected)));
            self.refused.with_label_values(&[name]).set(i64::from(refused.is_some()));
            let digits = |version: &Version| format!("{version:.12}");
            self.expected_version.with_label_values(&[name, &digits(expected)]).set(1);
            if let Some(newest) = newest {
                self.served_version.with_label_values(&[name, &digits(&newest)]).set(1);
            }
        }
    }
}
