//! A database of the scenario: its table, its servers, and the versions that they answer from.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use serde::Deserialize as _;
use serde_json::Value;
use ureq::Agent;

use super::accounts::Accounts;
use super::clients::Target;
use super::ledger::{Ledger, Published};
use super::programs::{Programs, Server, Stream, requests};

/// Setting of a follower: it looks for new versions often, so that its delay shows the time for
/// publishing and copying.
const LOOKS: (&str, &str) = ("SPIREA_FOLLOW__INTERVAL", "250ms");

/// A kind of database.
pub struct Kind {
    /// Name of the database, which is also the protocol's.
    pub name: &'static str,
    /// Number of servers.
    parties: usize,
    /// Options of `spirea build` other than the input and the output.
    options: &'static [&'static str],
}

/// Databases whose clients keep no state. One has two servers; the other has one server, and each
/// query brings its keys.
pub const KINDS: [Kind; 2] = [
    Kind { name: "dpf-xor", parties: 2, options: &[] },
    Kind { name: "exppack-simple", parties: 1, options: &["--keys", "per-query"] },
];

/// A database that is served.
pub struct Service {
    /// The servers' clients and versions.
    pub target: Arc<Target>,
    /// Processes of the servers. The first one publishes; a second one follows it.
    pub servers: Vec<Server>,
    http: Agent,
}

impl Service {
    /// Builds a database with proofs of the table `csv`, and serves it.
    pub fn start(
        programs: &Programs,
        kind: &Kind,
        csv: &Path,
        accounts: &Arc<Accounts>,
    ) -> anyhow::Result<Self> {
        let name = kind.name;
        let csv = csv.to_str().context("the folder's name is no text")?;
        let (snapshot, publisher, follower) =
            (format!("{name}-base"), format!("publisher/{name}"), format!("follower/{name}"));
        let table = ["build", "--input", csv, "--key", "account", "--value", "state", "--name", name];
        let protocol = ["--protocol", name, "--proofs", "--out", &snapshot];
        programs.run(&[&table[..], &protocol, kind.options].concat())?;
        programs.run(&["publish", "--repository", &publisher, "--base", &snapshot])?;
        std::fs::remove_dir_all(programs.folder().join(&snapshot))?;
        let mut servers = match kind.parties {
            1 => vec![programs.serve(name, &[&publisher], &[])?],
            _ => {
                let publishes = [&publisher, "--party", "0", "--activate-after", "30s"];
                let first = programs.serve(&format!("{name}-0"), &publishes, &[])?;
                let follows = [&follower, "--party", "1", "--follow", &first.admin];
                let second = programs.serve(&format!("{name}-1"), &follows, &[LOOKS])?;
                vec![first, second]
            }
        };
        servers.iter_mut().try_for_each(Server::wait_ready)?;
        let target = Arc::new(Target {
            database: name.into(),
            urls: servers.iter().map(|server| server.url.clone()).collect(),
            accounts: Arc::clone(accounts),
            ledger: Ledger::default(),
        });
        let service = Self { target, servers, http: requests() };
        service.look()?;
        Ok(service)
    }

    /// Address for administration of the server that publishes.
    pub fn admin(&self) -> &str {
        &self.servers[0].admin
    }

    /// Starts the stream of changes.
    pub fn stream(&self, programs: &Programs, changes: usize) -> anyhow::Result<Stream> {
        programs.stream(self.admin(), &self.target.database, changes)
    }

    /// Publishes a block before the stream of blocks begins, and records its version.
    pub fn publish(&self, programs: &Programs, changes: usize, lines: &[u8]) -> anyhow::Result<()> {
        let mut stream = self.stream(programs, changes)?;
        stream.send(lines)?;
        stream.finish()?;
        self.look()
    }

    /// Records the versions that the publishing server keeps. Versions made by compactions appear
    /// only in this list.
    pub fn look(&self) -> anyhow::Result<()> {
        let url = format!("{}/v1/admin/databases/{}/versions", self.admin(), self.target.database);
        let mut response = self.http.get(&url).call()?;
        let listed: Value = serde_json::from_str(&response.body_mut().read_to_string()?)?;
        let versions = listed["versions"].as_array().ok_or_else(|| anyhow!("{url}: {listed}"))?;
        for version in versions {
            self.target.ledger.add(&Published::deserialize(version)?);
        }
        Ok(())
    }
}
