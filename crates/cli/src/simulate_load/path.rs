//! The ways of queries through a server, and what they cost at some rate.

use serde::Serialize;
use spirea_engine::Window;
use spirea_engine::scheduler::PaceMeter;
use spirea_engine::scheduler::simulation::{Arrival, Simulation, poisson};

use super::service::Service;
use crate::latencies::Latencies;

/// A scheduler over a backend.
pub struct Path<'a> {
    name: &'static str,
    service: &'a Service,
    simulation: Simulation,
}

/// What happens at a rate. All times are virtual.
#[derive(Debug, Serialize)]
pub struct Point {
    /// `batched`, or `direct`: one query after another.
    pub path: &'static str,
    /// Queries a second that arrive.
    pub rate: f64,
    /// Queries that arrived.
    pub requests: usize,
    /// Those of them that found the queue full.
    pub refused: usize,
    /// Queries a second that were answered.
    pub throughput: f64,
    /// From arrival to answer.
    pub mean_seconds: f64,
    /// The median.
    pub p50_seconds: f64,
    /// What one in a hundred exceeds.
    pub p99_seconds: f64,
    /// Queries of a batch.
    pub mean_batch: f64,
    /// Share of the time in which the backend computes.
    pub utilisation: f64,
    /// Always: nothing here was measured under load.
    pub simulated: bool,
}

impl Point {
    /// The share that found the queue full.
    pub fn refused_share(&self) -> f64 {
        self.refused as f64 / self.requests as f64
    }
}

impl<'a> Path<'a> {
    /// The server's: a window as long as a scan, full batches of `limit`.
    pub fn batched(service: &'a Service, queue: usize, limit: usize) -> Self {
        let mut meter = PaceMeter::default();
        PaceMeter::probes(limit).into_iter().for_each(|queries| meter.note(queries, service.time(queries)));
        let simulation = Simulation { window: Window::Scan, capacity: queue, limit, slots: 1, meter };
        Self { name: "batched", service, simulation }
    }

    /// One query after another, as they come.
    pub fn direct(service: &'a Service, queue: usize) -> Self {
        let batched = Self::batched(service, queue, 1);
        let window = Window::Fixed(std::time::Duration::ZERO);
        Self { name: "direct", simulation: Simulation { window, ..batched.simulation }, ..batched }
    }

    /// What happens to so many queries that arrive at this rate.
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
