//! Workers on the emulated GPU. Its kernels give the same answers as the processor; if the GPU
//! fails, another replica answers on the processor.

#[allow(dead_code, reason = "shared with the other tests")]
#[path = "cluster/authority.rs"]
mod authority;
#[allow(dead_code, reason = "shared with the other tests")]
#[path = "cluster/fixture.rs"]
mod fixture;

use fixture::{Place, ROWS, Working, build, each_once, eventually, value};
use spirea_cluster::{Worker, WorkerConfig};
use spirea_cuda_emulation::{Config, Emulation};
use spirea_server::BackendChoice;
use spirea_store::Snapshot;

/// Runs a test alone on a device.
fn emulated(test: impl FnOnce(&Emulation)) {
    let config = Config { devices: 1, memory: 256 << 20, processors: 8, ..Config::default() };
    let emulation = Emulation::install(config);
    emulation.with(config, || test(emulation));
}

fn cuda() -> BackendChoice {
    BackendChoice::Cuda { devices: vec![0], strategy: None }
}

fn config(place: &Place, snapshot: &Snapshot, index: usize, backend: BackendChoice) -> WorkerConfig {
    WorkerConfig { backend, ..place.worker_config(snapshot, index, 2) }
}

#[test]
fn shares_are_computed_on_gpus() {
    emulated(|emulation| {
        let place = Place::new();
        for protocol in ["simple", "dpf-sum"] {
            let snapshot = build(place.path(), protocol, 1);
            emulation.reset();
            let workers = [cuda(), BackendChoice::Auto]
                .into_iter()
                .enumerate()
                .map(|(index, backend)| Working::start(config(&place, &snapshot, index, backend)));
            let workers: Vec<Working> = workers.collect();
            let rehearsed = emulation.all_launches();
            assert!(rehearsed > 0, "what a batch needs is found out before one comes");
            let placement = place.place(&[(&snapshot, each_once(&workers))]);
            let two = snapshot.manifest().protocol.parties > 1;
            let coordinator = place.coordinator(placement, two.then_some(spirea_protocols::Party::Zero));
            coordinator.ready(&snapshot);
            if !two {
                let found = place.client(&coordinator).get_indices(&[7, ROWS - 1]).unwrap();
                let found: Vec<_> = found.into_iter().flatten().map(|value| value.into_fields()).collect();
                assert_eq!(found, [7, ROWS - 1].map(|row| vec![value(row, 1).into_bytes()]), "{protocol}");
            }
            assert!(emulation.all_launches() > rehearsed);
        }
    });
}

#[test]
fn a_gpu_that_is_not_there_is_missed_and_one_that_is_lost_ends_the_worker() {
    emulated(|emulation| {
        let place = Place::new();
        let snapshot = build(place.path(), "simple", 1);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let absent = BackendChoice::Cuda { devices: vec![1], strategy: None };
        let refused = runtime.block_on(Worker::open(config(&place, &snapshot, 0, absent))).map(drop);
        assert!(refused.unwrap_err().to_string().contains("device 1 of 1"));
        let workers = [
            Working::start(config(&place, &snapshot, 0, cuda())),
            Working::start(config(&place, &snapshot, 0, BackendChoice::Cpu)),
            Working::start(config(&place, &snapshot, 1, BackendChoice::Cpu)),
        ];
        let [of_gpu, of_cpu, other] = workers.each_ref().map(Working::url);
        let placement = place.place(&[(&snapshot, vec![vec![of_gpu, of_cpu], vec![other]])]);
        let coordinator = place.coordinator(placement, None);
        coordinator.ready(&snapshot);
        let mut client = place.client(&coordinator);
        emulation.lose_after(Some(0));
        // No query fails, whichever replica is asked first.
        eventually("the worker has ended", || {
            assert!(client.get_indices(&[7]).unwrap()[0].is_some());
            coordinator.replica(0, 0)["state"] == "failed"
        });
        assert!(client.get_indices(&[8]).unwrap()[0].is_some());
    });
}
