//! Servers on the emulated GPU: they answer on the GPU and, if their settings allow it, continue
//! without the GPU.

#[allow(dead_code, reason = "shared with the server's other tests")]
#[path = "server/fixture.rs"]
mod fixture;

use std::path::PathBuf;
use std::time::Duration;

use fixture::{Running, connect, texts};
use spirea_backend::Strategy;
use spirea_cuda_emulation::{Config, Emulation};
use spirea_protocols::TableKind;
use spirea_server::{BackendChoice, ServeError, Server, ServerConfig};
use spirea_specimens::snapshots::{key, value, write_snapshot};

/// Runs a test on two emulated devices, one test at a time, with a snapshot to serve.
fn emulated(test: impl FnOnce(&Emulation, PathBuf)) {
    let config = Config { devices: 2, memory: 256 << 20, processors: 8, ..Config::default() };
    let emulation = Emulation::install(config);
    let folder = tempfile::tempdir().unwrap();
    emulation.with(config, || test(emulation, write_snapshot(folder.path(), "urls", TableKind::Keyword, 1)));
}

fn config(backend: BackendChoice, snapshot: PathBuf) -> ServerConfig {
    ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        snapshots: vec![snapshot],
        backend,
        threads: 1,
        ..ServerConfig::default()
    }
}

/// Starts a server and waits until its database is ready.
fn serve(backend: BackendChoice, snapshot: PathBuf) -> Running {
    let config = config(backend, snapshot);
    let server = Running::start(async { Server::bind(config).await });
    assert_eq!(state(&server), "ready");
    server
}

/// Returns the state of the only database once it has stopped loading.
fn state(server: &Running) -> String {
    for _ in 0..3000 {
        let body: serde_json::Value = serde_json::from_slice(&server.get("/readyz").body).unwrap();
        let state = body["databases"][0]["state"].as_str().unwrap();
        if state != "loading" {
            return state.into();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the database is still being loaded");
}

fn cuda(devices: &[usize], strategy: Option<Strategy>) -> BackendChoice {
    BackendChoice::Cuda { devices: devices.to_vec(), strategy }
}

#[test]
fn databases_are_answered_on_gpus() {
    emulated(|emulation, snapshot| {
        for backend in [BackendChoice::Auto, cuda(&[1], None), cuda(&[0, 1], Some(Strategy::Exchange))] {
            emulation.reset();
            let server = serve(backend, snapshot.clone());
            let rehearsed = emulation.all_launches();
            assert!(rehearsed > 0, "what a query needs is found out when it is loaded");
            server.assert_serving();
            assert!(emulation.all_launches() > rehearsed);
        }
        emulation.reset();
        let server = serve(BackendChoice::Cpu, snapshot);
        server.assert_serving();
        assert_eq!(emulation.all_launches(), 0);
    });
}

/// Returns the states of all databases once none is loading.
fn states(server: &Running) -> Vec<String> {
    for _ in 0..3000 {
        let body: serde_json::Value = serde_json::from_slice(&server.get("/readyz").body).unwrap();
        let databases = body["databases"].as_array().unwrap().iter();
        let states: Vec<String> =
            databases.map(|database| database["state"].as_str().unwrap().into()).collect();
        if states.iter().all(|state| state != "loading") {
            return states;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("a database is still being loaded");
}

/// For any amount of GPU memory: a database without room is refused when it is loaded, and every
/// loaded database answers.
#[test]
fn room_runs_out_when_a_database_is_loaded_and_never_for_a_query() {
    emulated(|emulation, first| {
        let folder = tempfile::tempdir().unwrap();
        let second = write_snapshot(folder.path(), "more", TableKind::Keyword, 2);
        let serve = |memory| {
            emulation.reset();
            emulation.configure(Config { memory, ..emulation.config() });
            let snapshots = vec![first.clone(), second.clone()];
            let config = ServerConfig { snapshots, ..config(cuda(&[0], None), first.clone()) };
            Running::start(async { Server::bind(config).await })
        };
        let answers = |server: &Running, name: &str, edition| {
            let cache = tempfile::tempdir().unwrap();
            let mut client = connect(&server.url(), name, cache.path()).unwrap();
            let keys: Vec<Vec<u8>> = (0..20).map(key).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let expected: Vec<_> = (0..20).map(|row| Some(value(row, edition))).collect();
            assert_eq!(texts(client.get_keys(&keys).unwrap()), expected, "{name}");
        };
        let server = serve(256 << 20);
        assert_eq!(states(&server), ["ready", "ready"]);
        let (tables, pinned) = (emulation.live(0).bytes, emulation.live_pinned());
        answers(&server, "urls", 1);
        answers(&server, "more", 2);
        assert_eq!(emulation.live(0).bytes, tables);
        assert_eq!(emulation.live_pinned(), pinned, "what queries are staged in is there before them");
        drop(server);

        // Finds the least memory, in steps of 256 bytes, that has room for both databases.
        let loaded = |memory| {
            let server = serve(memory);
            let states = states(&server);
            for ((name, edition), state) in [("more", 2), ("urls", 1)].into_iter().zip(&states) {
                if state == "ready" {
                    answers(&server, name, edition);
                }
            }
            states.iter().filter(|state| *state == "ready").count()
        };
        let (mut little, mut enough) = (tables, 256 << 20);
        while enough - little > 256 {
            let middle = little.midpoint(enough);
            if loaded(middle) == 2 {
                enough = middle;
            } else {
                little = middle;
            }
        }
        assert!(little > tables, "tables that fit are not enough");
        assert_eq!(loaded(little), 1, "one database is refused, and the other answers");
    });
}

#[test]
fn a_lost_gpu_is_left_for_the_processor() {
    emulated(|emulation, snapshot| {
        let server = serve(BackendChoice::Auto, snapshot);
        let cache = tempfile::tempdir().unwrap();
        let mut client = connect(&server.url(), "urls", cache.path()).unwrap();
        emulation.lose_after(Some(0));
        // The query during which the device is lost fails; the database then returns on the
        // processor.
        let _ = client.get_keys(&[&key(7)]);
        let answered = (0..500).find_map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            client.get_keys(&[&key(7)]).ok()
        });
        assert_eq!(texts(answered.expect("an answer of the processor")), [Some(value(7, 1))]);
        assert_eq!(state(&server), "ready");
    });
}

#[test]
fn a_lost_gpu_that_was_asked_for_is_missed() {
    emulated(|emulation, snapshot| {
        let server = serve(cuda(&[0], None), snapshot);
        let cache = tempfile::tempdir().unwrap();
        let mut client = connect(&server.url(), "urls", cache.path()).unwrap();
        emulation.lose_after(Some(0));
        assert!(client.get_keys(&[&key(7)]).is_err());
        let failed = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            state(&server) == "failed"
        });
        assert!(failed);
        assert!(server.get("/readyz").text().contains("GPU failed"));
    });
}

#[test]
fn a_gpu_that_is_not_there_is_refused() {
    emulated(|_, snapshot| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bind = Server::bind(config(cuda(&[2], None), snapshot));
        let refused = runtime.block_on(bind).map(drop).unwrap_err();
        assert!(matches!(refused, ServeError::Backend(_)), "{refused}");
        assert!(refused.to_string().contains("device 2 of 2"), "{refused}");
    });
}
