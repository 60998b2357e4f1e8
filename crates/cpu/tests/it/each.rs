//! Calls on the backend's threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use spirea_backend::{Backend, map_each};
use spirea_cpu::CpuBackend;

fn is_on_the_backends_threads() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with("spirea-cpu-"))
}

#[test]
fn every_number_is_called_once_on_the_backends_threads() {
    let backend = CpuBackend::new(3).unwrap();
    for count in [0, 2, 1000] {
        let calls: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
        backend.each(count, &|i| {
            assert!(is_on_the_backends_threads());
            calls[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(calls.iter().all(|calls| calls.load(Ordering::Relaxed) == 1), "{count} calls");
    }
}

#[test]
fn a_single_call_runs_on_the_callers_thread() {
    let caller = std::thread::current().id();
    let backend = CpuBackend::new(2).unwrap();
    assert_eq!(map_each(&backend, [7], |item| (item, std::thread::current().id())), [(7, caller)]);
}

#[test]
fn results_of_several_threads_are_in_order() {
    let backend = CpuBackend::new(3).unwrap();
    let squares = map_each(&backend, 0..1000u32, |i| i * i);
    assert_eq!(squares, (0..1000).map(|i| i * i).collect::<Vec<_>>());
}
