//! Paths of queries through a server, and their latencies at a rate.

use serde::Serialize;
use spirea_engine::Window;
use spirea_engine::scheduler::PaceMeter;
use spirea_engine::scheduler::simulation::{Arrival, Simulation, poisson};

use super::service::Service;
use crate::latencies::Latencies;

/// A scheduler on top of a backend.
pub struct Path<'a> {
    name: &'static str,
    service: &'a Service,
    simulation: Simulation,
}

/// Results of a simulation at one rate. All times are virtual.
#[derive(Debug, Serialize)]
pub struct Point {
    /// `batched`, or `direct` for one query after another.
    pub path: &'static str,
    /// Arriving queries per second.
    pub rate: f64,
    /// Number of queries that arrived.
    pub requests: usize,
    /// Number of arrivals that found the queue full.
    pub refused: usize,
    /// Answered queries per second.
    pub throughput: f64,
    /// Mean time from arrival to answer.
    pub mean_seconds: f64,
    /// Median latency.
    pub p50_seconds: f64,
    /// Latency that 1 query in 100 exceeds.
    pub p99_seconds: f64,
    /// Mean number of queries in a batch.
    pub mean_batch: f64,
    /// Share of time in which the backend computes.
    pub utilisation: f64,
    /// Always true: nothing here was measured under load.
    pub simulated: bool,
}

impl Point {
    /// Returns the share of arrivals that found the queue full.
    pub fn refused_share(&self) -> f64 {
        self.refused as f64 / self.requests as f64
    }
}

impl<'a> Path<'a> {
    /// Creates the path with the server's scheduler: its batching window is as long as a scan, and
    /// a full batch has `limit` queries.
    pub fn batched(service: &'a Service, queue: usize, limit: usize) -> Self {
        let mut meter = PaceMeter::default();
        PaceMeter::probes(limit).into_iter().for_each(|queries| meter.note(queries, service.time(queries)));
        let simulation = Simulation { window: Window::Scan, capacity: queue, limit, slots: 1, meter };
        Self { name: "batched", service, simulation }
    }

    /// Creates the path with a scheduler that answers one query after another, in order of arrival.
    pub fn direct(service: &'a Service, queue: usize) -> Self {
        let batched = Self::batched(service, queue, 1);
        let window = Window::Fixed(std::time::Duration::ZERO);
        Self { name: "direct", simulation: Simulation { window, ..batched.simulation }, ..batched }
    }

    /// Simulates `requests` queries that arrive at this rate.
    pub fn at(&self, rate: f64, requests: usize, seed: u64) -> Point {
        let times = poisson(rate, seed).take(requests);
        let arrivals: Vec<Arrival> = times.map(|at| Arrival { at, queries: 1 }).collect();
        let simulated = self.simulation.clone().run(&arrivals, |_, queries| self.service.time(queries));
        let latencies = simulated.batches.iter().flat_map(|batch| {
            let end = batch.at + batch.took;
            batch.requests.iter().map(|&i| (end - arrivals[i].at).as_secs_f64()).collect::<Vec<_>>()
        });
        let latencies = Latencies::new(latencies.collect());
        let busy: f64 = simulated.batches.iter().map(|batch| batch.took.as_secs_f64()).sum();
        let end = simulated.batches.last().map_or(0.0, |batch| (batch.at + batch.took).as_secs_f64());
        let answered = latencies.count() as f64;
        Point {
            path: self.name,
            rate,
            requests,
            refused: simulated.refused.len(),
            throughput: answered / end,
            mean_seconds: latencies.mean(),
            p50_seconds: latencies.quantile(0.5),
            p99_seconds: latencies.quantile(0.99),
            mean_batch: answered / simulated.batches.len() as f64,
            utilisation: busy / end,
            simulated: true,
        }
    }
}
