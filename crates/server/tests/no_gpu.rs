//! Servers without a usable GPU, for every possible reason: `auto` answers on the processor, `cuda`
//! reports the reason.

#[allow(dead_code, reason = "shared with the server's other tests")]
#[path = "server/fixture.rs"]
mod fixture;

use std::process::Command;

use fixture::{Running, eventually};
use spirea_cuda_emulation::{Config, DRIVER_VARIABLE, Emulation};
use spirea_protocols::TableKind;
use spirea_server::{BackendChoice, ServeError, Server, ServerConfig};
use spirea_specimens::snapshots::write_snapshot;

/// Variable that names the case in its child process: a process loads a driver only once.
const CASE: &str = "SPIREA_TEST_CASE";

#[test]
fn the_processor_answers_where_no_gpu_can() {
    let cases = [
        ("no-driver", "libcuda is not on this machine"),
        ("no-device", "finds no device"),
        ("old-driver", "is for CUDA 11.8"),
    ];
    for (case, reason) in cases {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_case", "--ignored", "--nocapture"]).env(CASE, format!("{case}:{reason}"));
        if case == "no-driver" {
            command.env(DRIVER_VARIABLE, "/nowhere/libcuda.so");
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{case}: {text}");
    }
}

#[test]
#[ignore = "runs in a process of its own"]
fn a_case() {
    let case = std::env::var(CASE).unwrap();
    let (case, reason) = case.split_once(':').unwrap();
    match case {
        "no-device" => drop(Emulation::install(Config { devices: 0, ..Config::default() })),
        "old-driver" => drop(Emulation::install(Config { version: 11080, ..Config::default() })),
        _ => {}
    }
    let folder = tempfile::tempdir().unwrap();
    let snapshot = write_snapshot(folder.path(), "urls", TableKind::Keyword, 1);
    let config = |backend| ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        snapshots: vec![snapshot.clone()],
        backend,
        threads: 1,
        ..ServerConfig::default()
    };
    let auto = config(BackendChoice::Auto);
    let server = Running::start(async { Server::bind(auto).await });
    eventually("the database", || server.get("/readyz").status == 200);
    server.assert_serving();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let backend = BackendChoice::Cuda { devices: Vec::new(), strategy: None };
    let refused = runtime.block_on(Server::bind(config(backend))).map(drop).unwrap_err();
    assert!(matches!(refused, ServeError::Backend(_)), "{refused}");
    assert!(refused.to_string().contains(reason), "{refused}");
}
