//! IM-PIR's claims with the model's values, and its figures.

use spirea_papers::{Claim, IM_PIR, Paper};
use spirea_pim::model::parameters::Parameters;
use spirea_pim::model::system::{QueryTimes, Setup};

/// Bytes of IM-PIR's records.
pub const RECORD_BYTES: usize = 32;
/// IM-PIR's database sizes in GiB (Figures 9a, 9c, 10 and 12).
pub const SIZES: [f64; 5] = [0.5, 1.0, 2.0, 4.0, 8.0];
/// IM-PIR's batch sizes (Figures 9b and 9d).
pub const BATCHES: [usize; 6] = [4, 8, 16, 32, 64, 128];
/// Batch size of the figures in which database sizes vary.
pub const BATCH: usize = 32;
/// IM-PIR's numbers of clusters (Figure 11).
pub const CLUSTERS: [usize; 4] = [1, 2, 4, 8];

/// Line of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the line.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Figure of the paper with the model's values.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Number in the paper.
    pub number: &'static str,
    /// Title.
    pub title: &'static str,
    /// Label of the x axis.
    pub x: &'static str,
    /// Label of the y axis.
    pub y: &'static str,
    /// Lines of the figure.
    pub series: Vec<Series>,
}

/// Returns the number of records in `gib` GiB.
pub fn records(gib: f64) -> u64 {
    (gib * f64::from(1 << 30)) as u64 / RECORD_BYTES as u64
}

/// The model, with the queries of the figures.
#[derive(Clone, Copy)]
struct Asked<'a>(&'a Parameters);

impl Asked<'_> {
    fn setup(self, gib: f64, clusters: usize) -> Setup {
        let dpus = self.0.machine.dpus;
        Setup { records: records(gib), record_bytes: RECORD_BYTES, dpus, clusters, queries: 1 }
    }

    fn throughput(self, gib: f64, clusters: usize) -> f64 {
        self.0.throughput(self.setup(gib, clusters))
    }

    /// Returns the queries a second of a batch; a batch smaller than the number of clusters leaves
    /// some clusters idle.
    fn throughput_of_batch(self, gib: f64, clusters: usize, batch: usize) -> f64 {
        let setup = self.setup(gib, clusters);
        if clusters == 1 {
            return self.throughput(gib, 1);
        }
        let (times, host) = (self.0.query(setup), self.0.evaluations_per_second(setup.records));
        let in_memory = batch.min(clusters) as f64 / times.in_memory();
        // The last fold does not overlap an evaluation.
        batch as f64 / (batch as f64 / host.min(in_memory) + times.in_memory())
    }

    fn cpu(self, gib: f64) -> f64 {
        let (evaluate, fold) = self.0.cpu_query(records(gib), RECORD_BYTES);
        1.0 / (evaluate + fold)
    }

    fn gpu(self, gib: f64) -> f64 {
        1.0 / self.0.gpu_query(records(gib), RECORD_BYTES)
    }

    /// Returns the percentages of Table 1, averaged over the sizes: evaluation, transfer to DPUs,
    /// fold, transfer from DPUs, aggregation.
    fn shares(self) -> [f64; 5] {
        let mut sums = [0.0; 5];
        for gib in SIZES {
            let times = self.0.query(self.setup(gib, 1));
            let phases =
                [times.evaluate, times.scatter + times.load, times.fold, times.gather, times.aggregate];
            let each = sums.iter_mut().zip(phases);
            each.for_each(|(sum, phase)| *sum += 100.0 * phase / times.total() / SIZES.len() as f64);
        }
        sums
    }
}

/// Returns the claims of `papers/im-pir.toml` with the model's values.
pub fn comparisons(parameters: &Parameters) -> Vec<Claim> {
    let asked = Asked(parameters);
    let speed_up = |gib: f64| asked.throughput(gib, 1) / asked.cpu(gib);
    let [evaluate, scatter, fold, gather, aggregate] = asked.shares();
    let (cpu_evaluate, cpu_fold) = parameters.cpu_query(records(1.0), RECORD_BYTES);
    let cpu = 100.0 / (cpu_evaluate + cpu_fold);
    let most = |of: &dyn Fn(f64) -> f64| SIZES.into_iter().map(of).fold(0.0, f64::max);
    let clusters = most(&|_| {
        let gain =
            |batch| asked.throughput_of_batch(1.0, 8, batch) / asked.throughput_of_batch(1.0, 1, batch);
        BATCHES.into_iter().map(gain).fold(0.0, f64::max)
    });
    let over_gpu = most(&|gib| asked.throughput(gib, 1) / asked.gpu(gib));
    let roof = |intensity: f64| {
        (parameters.cpu.bytes_per_second * intensity).min(parameters.cpu.operations_per_second) / 1e9
    };
    let paper = Paper::read(IM_PIR);
    let values = [
        ("Section 5.2: bandwidth from MRAM of a DPU, MB/s", parameters.mram_bytes_per_second() / 1e6),
        ("Table 1, IM-PIR: evaluation, %", evaluate),
        ("Table 1, IM-PIR: CPU to DPU, %", scatter),
        ("Table 1, IM-PIR: dpXOR, %", fold),
        ("Table 1, IM-PIR: DPU to CPU, %", gather),
        ("Table 1, IM-PIR: aggregation, %", aggregate),
        ("Table 1, CPU: evaluation, %", cpu * cpu_evaluate),
        ("Table 1, CPU: dpXOR, %", cpu * cpu_fold),
        ("Section 5.3: throughput over CPU, 0.5 GB, batch 32", speed_up(0.5)),
        ("Section 5.3: throughput over CPU, 8 GB, batch 32", speed_up(8.0)),
        ("Section 5.3: throughput over CPU, 1 GB, mean of batches", speed_up(1.0)),
        ("Section 5.4: 8 clusters over 1, 1 GB, at most", clusters),
        ("Section 5.5: throughput over GPU, at most", over_gpu),
        ("Section 5.5: latency over GPU, at most", over_gpu),
        (
            "Section 5.5: throughput of the GPU over CPU, at most",
            most(&|gib| asked.gpu(gib) / asked.cpu(gib)),
        ),
        ("Figure 3b: roof over dpXOR, Gop/s", roof(0.0625)),
        ("Figure 3b: roof over evaluation, Gop/s", roof(30.0)),
    ];
    values.into_iter().map(|(what, value)| paper.claim(what, value)).collect()
}

/// Returns figures 9 to 12.
pub fn figures(parameters: &Parameters) -> Vec<Figure> {
    let asked = Asked(parameters);
    let series = |name: &str, points: Vec<(f64, f64)>| Series { name: name.into(), points };
    let by_size = |of: &dyn Fn(f64) -> f64| SIZES.into_iter().map(|gib| (gib, of(gib))).collect::<Vec<_>>();
    let by_batch = |of: &dyn Fn(usize) -> f64| {
        BATCHES.into_iter().map(|batch| (batch as f64, of(batch))).collect::<Vec<_>>()
    };
    let batch = BATCH as f64;
    let (sizes, batches) = ("database in GiB", "queries in a batch");
    let (rate, latency) = ("queries a second", "seconds for the batch");
    let pim = |gib: f64| asked.throughput(gib, 1);
    let cluster_rate = |clusters: usize| {
        series(
            &format!("{clusters} cluster(s)"),
            by_batch(&|batch| asked.throughput_of_batch(1.0, clusters, batch)),
        )
    };
    let cluster_latency = |clusters: usize| {
        let of = |batch| batch as f64 / asked.throughput_of_batch(1.0, clusters, batch);
        series(&format!("{clusters} cluster(s)"), by_batch(&of))
    };
    let phase = |name: &str, of: &dyn Fn(QueryTimes) -> f64| {
        series(name, by_size(&|gib| of(parameters.query(asked.setup(gib, 1)))))
    };
    let cpu_phase = |name: &str, of: &dyn Fn((f64, f64)) -> f64| {
        series(name, by_size(&|gib| of(parameters.cpu_query(records(gib), RECORD_BYTES))))
    };
    let figure = |number, title, x, y, series| Figure { number, title, x, y, series };
    vec![
        figure(
            "9a",
            "Throughput against size, batch 32",
            sizes,
            rate,
            vec![series("IM-PIR", by_size(&pim)), series("CPU", by_size(&|gib| asked.cpu(gib)))],
        ),
        figure(
            "9b",
            "Throughput against batch, 1 GiB",
            batches,
            rate,
            vec![series("IM-PIR", by_batch(&|_| pim(1.0))), series("CPU", by_batch(&|_| asked.cpu(1.0)))],
        ),
        figure(
            "9c",
            "Latency against size, batch 32",
            sizes,
            latency,
            vec![
                series("IM-PIR", by_size(&|gib| batch / pim(gib))),
                series("CPU", by_size(&|gib| batch / asked.cpu(gib))),
            ],
        ),
        figure(
            "9d",
            "Latency against batch, 1 GiB",
            batches,
            latency,
            vec![
                series("IM-PIR", by_batch(&|batch| batch as f64 / pim(1.0))),
                series("CPU", by_batch(&|batch| batch as f64 / asked.cpu(1.0))),
            ],
        ),
        figure(
            "10",
            "Time of a query by phase",
            sizes,
            "seconds",
            vec![
                phase("evaluation", &|times| times.evaluate),
                phase("CPU to DPU", &|times| times.scatter + times.load),
                phase("dpXOR", &|times| times.fold),
                phase("DPU to CPU", &|times| times.gather),
                phase("aggregation", &|times| times.aggregate),
                cpu_phase("CPU: evaluation", &|(evaluate, _)| evaluate),
                cpu_phase("CPU: dpXOR", &|(_, fold)| fold),
            ],
        ),
        figure(
            "11a",
            "Clusters: throughput against batch, 1 GiB",
            batches,
            rate,
            CLUSTERS.map(cluster_rate).into(),
        ),
        figure(
            "11b",
            "Clusters: latency against batch, 1 GiB",
            batches,
            latency,
            CLUSTERS.map(cluster_latency).into(),
        ),
        figure(
            "12a",
            "Throughput against size, with a GPU",
            sizes,
            rate,
            vec![
                series("IM-PIR", by_size(&pim)),
                series("CPU", by_size(&|gib| asked.cpu(gib))),
                series("GPU", by_size(&|gib| asked.gpu(gib))),
            ],
        ),
        figure(
            "12b",
            "Latency against size, with a GPU",
            sizes,
            latency,
            vec![
                series("IM-PIR", by_size(&|gib| batch / pim(gib))),
                series("CPU", by_size(&|gib| batch / asked.cpu(gib))),
                series("GPU", by_size(&|gib| batch / asked.gpu(gib))),
            ],
        ),
    ]
}

/// Gain of passes that several queries share; not in the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// Number of queries that share a pass.
    pub queries: usize,
    /// Seconds of a DPU's fold for each query.
    pub fold_seconds: f64,
    /// Seconds of a cluster for each query, including transfers and launch.
    pub in_memory_seconds: f64,
    /// Queries a second that the memories alone could answer.
    pub in_memory_throughput: f64,
    /// Queries a second in all, with evaluation in parallel with the folds.
    pub throughput: f64,
    /// Number of workers with which the host evaluates as fast as the memories fold.
    pub workers_to_balance: f64,
}

/// Computes the gain of shared passes on a table of `gib` GiB, for one cluster that folds while the
/// host evaluates.
pub fn shared_passes(parameters: &Parameters, gib: f64) -> Vec<Shared> {
    let of = |queries| {
        let setup = Setup { queries, ..Asked(parameters).setup(gib, 1) };
        let times = parameters.query(setup);
        let of_dpu = setup.records as f64 / setup.dpus as f64;
        let in_memory = 1.0 / times.in_memory();
        let host = parameters.evaluations_per_second(setup.records);
        Shared {
            queries,
            fold_seconds: parameters.fold_seconds(of_dpu, RECORD_BYTES, queries) / queries as f64,
            in_memory_seconds: times.in_memory(),
            in_memory_throughput: in_memory,
            throughput: host.min(in_memory),
            workers_to_balance: f64::from(parameters.host.workers) * in_memory / host,
        }
    };
    [1, 2, 4].map(of).into()
}
