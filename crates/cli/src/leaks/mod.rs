//! Leak report of `spirea inspect`: what each party to a look-up learns.

mod apple;
mod figures;
mod observers;

use serde::Serialize;
use spirea_store::{Snapshot, StoreError, VersionRecord};

pub use figures::{Figures, SetSecurity, set_securities};
pub use observers::refusal_bits;
use observers::{Observer, Subject};

/// Report of what each participant and observer of a look-up learns.
#[derive(Debug, Serialize)]
pub struct Report {
    name: String,
    version: String,
    protocol: &'static str,
    figures: Figures,
    observers: Vec<Observer>,
}

impl Report {
    /// Returns the report of a snapshot that is served alone.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if its signature is invalid, [`StoreError::Io`] if it cannot be
    /// read.
    pub fn of_snapshot(snapshot: &Snapshot) -> Result<Self, StoreError> {
        let signature = snapshot.signature()?;
        Ok(Self::new(&Subject {
            figures: Figures::of(snapshot.manifest(), None),
            base: snapshot.manifest(),
            version: snapshot.version().to_string(),
            key: signature.map(|signature| signature.key),
        }))
    }

    /// Returns the report of a version of a repository.
    pub fn of_version(record: &VersionRecord) -> Self {
        Self::new(&Subject {
            figures: Figures::of(record.base.manifest(), record.delta.as_ref().map(Snapshot::manifest)),
            base: record.base.manifest(),
            version: record.version.to_string(),
            key: record.signature.as_ref().map(|signature| signature.key),
        })
    }

    fn new(subject: &Subject<'_>) -> Self {
        Self {
            name: subject.base.name.clone(),
            version: subject.version.clone(),
            protocol: subject.base.protocol.name,
            figures: subject.figures.clone(),
            observers: observers(subject),
        }
    }

    /// Formats the report as lines for a person.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("What a look-up of {} {} tells whom", self.name, self.version)];
        for Observer { who, learns, does_not_learn } in &self.observers {
            lines.extend([String::new(), (*who).into()]);
            lines.extend(learns.iter().map(|text| format!("  learns        {text}")));
            lines.extend(does_not_learn.iter().map(|text| format!("  learns not    {text}")));
        }
        lines
    }
}

/// Returns the participants and observers, with those of Apple's clients if the snapshot has tables
/// for them.
fn observers(subject: &Subject<'_>) -> Vec<Observer> {
    let apple = subject.base.apple.as_ref().map(apple::server);
    subject.observers().into_iter().chain(apple).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bytes::Bytes;
    use spirea_apple::Set;
    use spirea_math::random::SecretRng;
    use spirea_protocols::TableClient;
    use spirea_protocols::registry::NAMES;
    use spirea_specimens::snapshots::{columns, csv_options, try_build};
    use spirea_store::{AppleOptions, BuildOptions, Overwrite, Proving};
    use spirea_wire::{Queries, Request};

    use super::*;

    fn snapshot(folder: &Path, protocol: &str, key: Option<&str>) -> Snapshot {
        let rows: String = (0..40).map(|row| format!("key {row},value {row}\n")).collect();
        let lines = format!("key,value\n{rows}");
        let options = csv_options(&folder.join(protocol), protocol, columns(key, &["value"]), &lines);
        try_build(&BuildOptions { seed: Some([5; 32]), ..options }).unwrap()
    }

    fn observer<'r>(report: &'r Report, who: &str) -> &'r Observer {
        report.observers.iter().find(|observer| observer.who.contains(who)).unwrap()
    }

    #[test]
    fn figures_are_those_of_real_requests() {
        let folder = tempfile::tempdir().unwrap();
        for protocol in NAMES {
            let snapshot = snapshot(folder.path(), protocol, Some("key"));
            let Report { figures, .. } = Report::of_snapshot(&snapshot).unwrap();
            let mut rng = SecretRng::deterministic_for_tests(1);
            let manifest = snapshot.manifest();
            let hint = std::fs::read(snapshot.hint_path()).unwrap();
            let index = manifest.protocol.client(&hint, &[], &mut rng).unwrap();
            let client = TableClient::new(manifest.table.clone(), index).unwrap();
            let keys = client.index().keys().map(|keys| blake3::hash(keys.bytes()).into());
            let request = |count: usize, rng: &mut SecretRng| {
                let query = |rng: &mut SecretRng| client.query_key(b"key 1", rng).unwrap().0.remove(0);
                let queries = (0..count).map(|_| Bytes::from(query(rng))).collect();
                let base = Queries { keys, queries };
                Request { version: snapshot.version(), base, delta: None }.encode().len()
            };
            let lengths = [1, 2, 3].map(|count| request(count, &mut rng));
            let figures::Growing { first, further } = figures.request_bytes;
            assert_eq!(lengths, [first, first + further, first + 2 * further], "{protocol}");
            assert_eq!(figures.hint_bytes, hint.len() as u64);
            assert_eq!(figures.keys_bytes, client.index().keys().map_or(0, |keys| keys.bytes().len()));
            assert!(
                figures.security_bits > 100.0 && figures.failure.is_none_or(|failure| failure.log2 < -40.0)
            );
            assert!(figures.false_match_log2.unwrap() < -90.0);
            assert!(figures.records_in_answer >= 1 && figures.records_in_answer <= figures.records);
        }
    }

    #[test]
    fn what_servers_learn_together_is_said_where_there_are_two() {
        let folder = tempfile::tempdir().unwrap();
        let two = Report::of_snapshot(&snapshot(folder.path(), "dpf-xor", Some("key"))).unwrap();
        let together = observer(&two, "work together").learns.join("\n");
        assert!(together.contains(&format!("which of the {} buckets", two.figures.records)), "{together}");
        assert!(
            observer(&two, "each of the two").learns.iter().any(|text| text.contains("no evaluation keys"))
        );
        assert!(!two.lines().join("\n").contains("first refusal"));
        assert!(observer(&two, "an answer").learns.iter().any(|text| text.contains("no noise")));

        let one = Report::of_snapshot(&snapshot(folder.path(), "exppack-simple", None)).unwrap();
        assert!(one.observers.iter().all(|observer| !observer.who.contains("together")));
        let server = observer(&one, "the server").learns.join("\n");
        assert!(server.contains("evaluation keys") && server.contains("links"), "{server}");
        assert!(
            server.contains("at most 10 bits about earlier ones") && server.contains("1024 queries"),
            "{server}"
        );
        assert!(!server.contains("combines ciphertexts"), "{server}");
        let hidden = |report: &Report, who: &str| observer(report, who).does_not_learn.join("\n");
        let assumed = hidden(&one, "the server");
        assert!(assumed.contains("assumption of circular security"), "{assumed}");
        let alone = hidden(&two, "each of the two");
        assert!(!alone.contains("circular"), "{alone}");
        assert!(one.figures.false_match_log2.is_none() && one.figures.failure.is_some());
        let lines = one.lines().join("\n");
        assert!(lines.contains("exppack-simple") && lines.contains("40 values"), "{lines}");
    }

    #[test]
    fn a_server_that_combines_ciphertexts_learns_of_earlier_queries_unless_there_are_proofs() {
        let folder = tempfile::tempdir().unwrap();
        let learns = |name: &str, proving: Option<Proving>| {
            let out = folder.path().join(name);
            let lines: String = (0..4000).map(|row| format!("{}\n", format!("{row} ").repeat(20))).collect();
            let lines = format!("value\n{lines}");
            let options = csv_options(&out, "onion", columns(None, &["value"]), &lines);
            let snapshot = try_build(&BuildOptions { proving, ..options }).unwrap();
            let bits = snapshot.manifest().protocol.combined_answer_bits;
            assert!(bits > 1.0, "{bits}");
            let report = Report::of_snapshot(&snapshot).unwrap();
            let server = observer(&report, "the server").learns.join("\n");
            server.contains(&format!("up to {bits:.1} bits of an earlier index"))
        };
        assert!(learns("plain", Some(Proving::Omit)));
        assert!(!learns("proven", Some(Proving::Include)));
        assert!(!learns("default", None));
    }

    #[test]
    fn what_apples_clients_are_not_promised_is_said_where_there_are_tables_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let selection = columns(Some("number"), &["block"]);
        let options = csv_options(
            &folder.path().join("numbers"),
            "simple",
            selection,
            "number,block\n+41446680000,1\n",
        );
        let without = Report::of_snapshot(&try_build(&options).unwrap()).unwrap();
        assert!(!without.lines().join("\n").contains("Apple"));
        let apple = AppleOptions { bundle: "net.example".into(), set: Set::Logt4, shards: 4 };
        let options = BuildOptions { apple: Some(apple), overwrite: Overwrite::Replace, ..options };
        let report = Report::of_snapshot(&try_build(&options).unwrap()).unwrap();
        let server = observer(&report, "Apple client");
        let learns = server.learns.join("\n");
        for part in ["net.example.block", "one client", "not checked", "4 shards", "2 bits"] {
            assert!(learns.contains(part), "{part}: {learns}");
        }
        assert!(
            server.does_not_learn[0].contains("logt_4 cost at least 2^159.7"),
            "{:?}",
            server.does_not_learn
        );
    }

    #[test]
    fn a_small_table_is_known_from_its_hint() {
        let folder = tempfile::tempdir().unwrap();
        let report = Report::of_snapshot(&snapshot(folder.path(), "simple", None)).unwrap();
        assert!(report.figures.hint_determines_table);
        let client = observer(&report, "the client").learns.join("\n");
        assert!(client.contains("17 bits of equations that determine the whole table"), "{client}");
    }
}
