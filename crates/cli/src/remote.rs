//! Publishing through the administration port of a server that has the repository.

use std::io::{self, PipeWriter, Read, pipe};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use serde::Deserialize as _;
use serde_json::Value;
use spirea_client::{ClientError, EnvironmentProxy, TransportError, agent, check_address, proxy_for};
use spirea_console::access::{Access, tls};
use spirea_console::address;
use spirea_console::output::{print_line, seconds};
use spirea_console::status::Status;
use spirea_protocols::Table;
use spirea_store::Snapshot;
use spirea_store::changes::Cursor;
use spirea_store::manifest::{MANIFEST_FILE, MAX_MANIFEST_BYTES, SIGNATURE_FILE};
use spirea_store::repository::Shrinking;
use spirea_wire::{MAX_REFUSAL_BYTES, Refusal};
use ureq::http::Response;
use ureq::http::header::AUTHORIZATION;
use ureq::{Agent, Body, RequestBuilder, SendBody};

/// Maximum length of a response with a list of versions and the table, in bytes. The table fits a
/// manifest.
const MAX_VERSIONS_BYTES: u64 = 2 * MAX_MANIFEST_BYTES;

/// Content type of changes: lines of JSON.
const CHANGES: Option<&str> = Some("application/x-ndjson");
/// Content type of a snapshot: a tar archive.
const SNAPSHOT: Option<&str> = Some("application/x-tar");

/// Options for a server that has the repository.
#[derive(Args)]
pub struct Remote {
    /// Address of the server's port for administration, in place of a repository's folder.
    #[arg(help_heading = "Repository", long, value_name = "URL", requires = "database", value_parser = address::server)]
    server: Option<String>,
    /// The database on that server.
    #[arg(help_heading = "Repository", long, value_name = "NAME", requires = "server", value_parser = address::database)]
    database: Option<String>,
    #[command(flatten)]
    access: Access,
}

impl Remote {
    /// Connects to the server, if one was named.
    pub fn publisher(&self) -> anyhow::Result<Option<Publisher>> {
        let Some((server, database)) = self.server.as_deref().zip(self.database.as_deref()) else {
            return Ok(None);
        };
        let through = proxy_for(server)?;
        let config = Agent::config_builder()
            .user_agent(concat!("spirea/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // The response comes only when the version answers, which takes an unknown time. Hence
            // only connecting has a timeout.
            .timeout_connect(Some(Duration::from_secs(10)))
            .tls_config(tls(self.access.ca.as_deref())?)
            .proxy(through.as_ref().map(|through| through.proxy().clone()))
            .build();
        let token = self.access.token()?;
        check_address(server, token.is_some())?;
        let authorization = token.map(|token| format!("Bearer {token}"));
        let url = format!("{}/v1/admin/databases/{database}", server.trim_end_matches('/'));
        Ok(Some(Publisher { agent: agent(config), through, database: database.into(), url, authorization }))
    }
}

/// Client of the endpoints that publish a database.
pub struct Publisher {
    agent: Agent,
    /// Proxy that the environment names for requests to this server.
    through: Option<EnvironmentProxy>,
    /// Name of the database.
    database: String,
    /// Base URL of the endpoints.
    url: String,
    authorization: Option<String>,
}

impl Publisher {
    /// Sends a snapshot.
    pub fn base(&self, folder: &Path, shrinking: Shrinking) -> anyhow::Result<Status> {
        let snapshot = Snapshot::open(folder)?;
        let (name, database) = (&snapshot.manifest().name, &self.database);
        ensure!(
            name == database,
            "{}: it is a snapshot of {name}, and --database is {database}: publish it to {name}, or build it with --name {database}",
            folder.display()
        );
        // Reports a wrong address, token or database before gigabytes are sent.
        self.versions()?;
        let (reader, writer) = pipe().context("the system gave no pipe")?;
        let packing = thread::spawn(move || pack(&snapshot, writer));
        let endpoint = match shrinking {
            Shrinking::Refuse => "snapshot",
            Shrinking::Allow => "snapshot?shrinking=allow",
        };
        let sent = self.post(endpoint, SNAPSHOT, SendBody::from_owned_reader(reader));
        // If the server refuses the upload, it stops reading and the pipe breaks. The refusal is
        // then the error to report.
        let packed = packing.join().map_err(|_| anyhow!("packing the snapshot was aborted by a defect"))?;
        let exit = sent?;
        packed.map(|()| exit)
    }

    /// Returns the table that changes apply to.
    pub fn table(&self) -> anyhow::Result<Table> {
        table_of(&self.versions()?)
    }

    /// Returns the versions that the server keeps, and the table of the newest version.
    fn versions(&self) -> anyhow::Result<Value> {
        let response = self.authorized(self.agent.get(format!("{}/versions", self.url))).call();
        let response = response.map_err(|error| self.failed(error));
        self.read(response.with_context(|| self.url.clone())?, MAX_VERSIONS_BYTES)
    }

    /// Returns the table that changes apply to, and the cursor of the current version.
    pub fn position(&self) -> anyhow::Result<(Table, Option<Cursor>)> {
        let versions = self.versions()?;
        let newest = versions.pointer("/versions/0/cursor");
        let cursor = newest.map(Cursor::deserialize).transpose().context("the newest version's cursor")?;
        Ok((table_of(&versions)?, cursor))
    }

    /// Sends changes, as lines of JSON.
    pub fn changes(&self, lines: impl Read + Send + 'static) -> anyhow::Result<Status> {
        self.post("changes", CHANGES, SendBody::from_owned_reader(lines))
    }

    /// Sends a group of changes, as lines of JSON. Returns the server's description of the version.
    pub fn group(&self, lines: Vec<u8>) -> anyhow::Result<Value> {
        self.send("changes", CHANGES, SendBody::from_owned_reader(io::Cursor::new(lines)))
    }

    /// Rolls back to the version `to`, or by default to the version before the current one.
    pub fn roll_back(&self, to: Option<&str>) -> anyhow::Result<Status> {
        let to = to.map(|version| format!("?to={version}")).unwrap_or_default();
        self.post(&format!("rollback{to}"), None, SendBody::none())
    }

    /// Merges the base and its changes into a new base.
    pub fn compact(&self) -> anyhow::Result<Status> {
        self.post("compact", None, SendBody::none())
    }

    /// Sends a request, and prints the version that answers look-ups afterwards.
    fn post(&self, what: &str, content_type: Option<&str>, body: SendBody<'_>) -> anyhow::Result<Status> {
        let started = Instant::now();
        let published = self.send(what, content_type, body)?;
        let taken = seconds(started.elapsed().as_secs_f64());
        let version = published["version"].as_str().unwrap_or_default();
        print_line(&format!("version {version} answers after {taken}"))?;
        print_line(&format!(
            "number {}, {} changed in its delta",
            published["sequence"], published["changes"]
        ))?;
        Ok(Status::SUCCESS)
    }

    fn send(&self, what: &str, content_type: Option<&str>, body: SendBody<'_>) -> anyhow::Result<Value> {
        let request = self.authorized(self.agent.post(format!("{}/{what}", self.url)));
        let response = content_type.into_iter().fold(request, RequestBuilder::content_type).send(body);
        let response = response.map_err(|error| self.failed(error));
        let response = response.with_context(|| format!("{}: nothing may have been published", self.url))?;
        self.read(response, MAX_REFUSAL_BYTES)
    }

    /// Converts an error of this agent to the [`ClientError`] that look-ups report, with the proxy
    /// and a remedy.
    fn failed(&self, error: ureq::Error) -> ClientError {
        let error = TransportError::from(error);
        match &self.through {
            Some(through) => through.named(error),
            None => error,
        }
        .into()
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization),
            None => request,
        }
    }

    /// Parses the JSON of a response of at most `limit` bytes; fails with the refusal if the server
    /// refused.
    fn read(&self, response: Response<Body>, limit: u64) -> anyhow::Result<Value> {
        let status = response.status();
        let body = response.into_body().into_with_config().limit(limit).read_to_vec()?;
        if !status.is_success() {
            match Refusal::decode(body.into()) {
                Ok(refusal) => {
                    bail!("the server refused ({status}): {}; {}", refusal.message, refusal.remedy)
                }
                Err(_) => bail!(
                    "{}: unexpected status {status}; is this a server's port for administration?",
                    self.url
                ),
            }
        }
        serde_json::from_slice(&body).context("the server's response is no JSON")
    }
}

/// Returns the table from a server's list of versions.
fn table_of(versions: &Value) -> anyhow::Result<Table> {
    let table: Option<Table> = Option::deserialize(&versions["table"])
        .context("the server does not say what its table is; it may be an older one: update it, or publish where its repository lies")?;
    let table = table.context("the database has no version yet; publish a base with --base SNAPSHOT")?;
    table.validate()?;
    Ok(table)
}

/// Writes a snapshot's files as a tar archive, the manifest first.
fn pack(snapshot: &Snapshot, writer: PipeWriter) -> anyhow::Result<()> {
    let mut archive = tar::Builder::new(writer);
    let files = snapshot.manifest().files().map(|entry| entry.file.clone());
    let signature = snapshot.folder().join(SIGNATURE_FILE).exists().then(|| SIGNATURE_FILE.to_owned());
    for file in [MANIFEST_FILE.to_owned()].into_iter().chain(files).chain(signature) {
        let path = snapshot.folder().join(&file);
        archive.append_path_with_name(&path, &file).with_context(|| path.display().to_string())?;
    }
    archive.finish().context("the archive could not be sent")
}
