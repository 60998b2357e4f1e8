//! Metrics and logs: what they must contain, and what they must not.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use spirea_protocols::TableKind;
use spirea_server::Limits;
use spirea_specimens::hooked::database;
use spirea_specimens::no_hook;
use spirea_specimens::snapshots::{key, write_snapshot};
use spirea_wire::KeysRequest;
use tempfile::tempdir;
use tracing_subscriber::fmt::MakeWriter;

use crate::fixture::{config, connect, engine, request, serve_engine};
use crate::keys;

/// All logged output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// True if `text` contains the bytes of `secret`: raw, in hexadecimal, or as a list of numbers.
fn leaks(text: &str, secret: &[u8]) -> bool {
    let hex = hex::encode(secret);
    let list = secret.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let lossy = String::from_utf8_lossy(secret);
    [&*lossy, &*hex, &*list].iter().any(|form| text.contains(form))
}

#[test]
fn metrics_and_logs_tell_what_happens_and_nothing_of_queries() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let folder = tempdir().unwrap();
    let engine = engine(8);
    engine.publish(database(&write_snapshot(folder.path(), "urls", TableKind::Keyword, 1), no_hook()));
    engine.publish(keys::database(no_hook()));
    let server = serve_engine(&engine, Limits::default());
    let mut client = connect(&server.url(), "urls", &folder.path().join("cache")).unwrap();
    client.get_keys(&[&key(3), b"a-secret-key"]).unwrap();
    let mut marked = request(&server, 3);
    let query: Vec<u8> = (0..config(&server).base.lengths.query_bytes).map(|i| (i * 7 % 251) as u8).collect();
    marked.base.queries[1] = query.clone().into();
    assert_eq!(server.post("/v1/databases/urls/query?who=a-secret-caller", &marked.encode()).status, 200);
    assert_eq!(server.post("/v1/databases/urls/query", b"a-secret-body").status, 400);
    assert_eq!(server.get("/v1/databases/a-secret-name/config").status, 404);
    assert_eq!(server.get("/a-secret-path").status, 404);
    let rest = "authorization: Bearer a-secret-token\r\ncookie: a-secret-cookie\r\n";
    assert_eq!(server.get_with("/v1/databases/urls/config", rest).status, 200);

    let upload = {
        let keys = (0..keys::upload(0).keys.len()).map(|i| (i * 11 % 241) as u8).collect();
        KeysRequest { keys, ..keys::upload(0) }
    };
    let hash = blake3::hash(&upload.keys).into();
    for (path, body, status) in [
        ("query", keys::request(Some(hash)).encode(), 424),
        ("keys", upload.encode(), 200),
        ("query", keys::request(Some(hash)).encode(), 200),
    ] {
        assert_eq!(server.post(&format!("/v1/databases/keyed/{path}"), &body).status, status);
    }

    let labelled = |name: &str, labels: &str| server.metric(&format!("{name}{{database=\"urls\"{labels}}}"));
    let endpoint = ",endpoint=\"/v1/databases/{name}/query\",status=\"200\"";
    assert_eq!(labelled("spirea_requests_total", endpoint), Some(2.0));
    let endpoint = endpoint.replace("200", "400");
    assert_eq!(labelled("spirea_requests_total", &endpoint), Some(1.0));
    assert_eq!(labelled("spirea_batch_queries_sum", ""), Some(5.0));
    assert_eq!(labelled("spirea_batch_queries_count", ""), Some(2.0));
    assert!(labelled("spirea_answer_seconds_sum", "").unwrap() > 0.0);
    assert!(labelled("spirea_received_bytes_total", "").unwrap() > 5.0 * query.len() as f64);
    assert!(
        labelled("spirea_sent_bytes_total", "").unwrap() > client.description().base().hint_bytes() as f64
    );
    assert_eq!(labelled("spirea_database_ready", ""), Some(1.0));
    assert_eq!(server.metric("spirea_in_flight_requests"), Some(1.0));
    let version = config(&server).version;
    let version = format!(",version=\"{version:.12}\"");
    assert_eq!(labelled("spirea_version_served_info", &version), Some(1.0));
    assert_eq!(labelled("spirea_version_expected_info", &version), Some(1.0));
    assert_eq!(labelled("spirea_versions_served", ""), Some(1.0));
    assert_eq!(labelled("spirea_version_behind", ""), Some(0.0));

    let metrics = server.get("/metrics").text();
    let logs = String::from_utf8_lossy(&log.0.lock()).into_owned();
    assert!(logs.contains("\"endpoint\":\"/v1/databases/{name}/query\""), "{logs}");
    assert!(logs.contains("\"status\":200") && logs.contains("\"took\":\""));
    for text in [&metrics, &logs] {
        assert!(!text.contains("a-secret"));
        assert!(!leaks(text, &query[..16]) && !leaks(text, &query[100..116]));
        assert!(!leaks(text, &upload.keys[..16]) && !leaks(text, &hash.as_bytes()[..8]));
        assert!(!text.contains("127.0.0.1"));
    }
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.starts_with("spirea_"), "{line}");
    }
}
