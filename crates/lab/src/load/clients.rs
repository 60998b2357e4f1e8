//! Simulated clients: sessions with their own keys that share hints and follow the database's
//! versions.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, ensure};
use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use spirea_client::{ClientError, Clock, Description, Hint, Keys, Pending, Session, WeakPrf};
use spirea_wire::{Code, KeysHash, Limits, MAX_CONFIG_BYTES, MAX_KEYS_RESPONSE_BYTES, Version};
use tokio::sync::Mutex;

use super::endpoint::{Endpoint, Failure};
use super::questions::Ask;

/// Maximum length of a hint to download, in bytes.
const MAX_HINT_BYTES: u64 = 8 << 30;
/// Maximum number of attempts to fetch a configuration while the database changes in between.
const REFRESHES: usize = 5;

/// A version's downloads: its description and hints.
pub struct Edition {
    description: Description,
    /// Hints of the parts, in the order of the parts.
    hints: Vec<Hint>,
}

impl Edition {
    /// Description of the version.
    pub fn description(&self) -> &Description {
        &self.description
    }
}

/// A client in one version. Its requests are made one after another; its answers are decoded
/// concurrently.
pub struct Client {
    session: RwLock<Session>,
}

impl Client {
    // A panic during a query loses only that query, so a poisoned session stays usable.
    pub fn session(&self) -> RwLockReadGuard<'_, Session> {
        self.session.read()
    }

    fn asking(&self) -> RwLockWriteGuard<'_, Session> {
        self.session.write()
    }

    fn version(&self) -> Version {
        *self.session().description().version()
    }
}

/// A client across all versions.
#[derive(Default)]
struct Life {
    /// The client in the version that it asked last.
    latest: Option<Arc<Client>>,
    /// Hashes of the keys that the servers have accepted.
    keys_sent: HashSet<KeysHash>,
}

/// A look-up that is ready to be sent.
pub struct Prepared {
    /// The client that asks.
    pub client: Arc<Client>,
    /// Version for which the look-up was made.
    pub version: Version,
    /// Lengths of the version's messages.
    pub limits: Limits,
    /// Bodies of the requests, one for each server.
    pub requests: Vec<Bytes>,
    /// State for decoding the answers.
    pub pending: Pending,
}

impl Prepared {
    /// Returns the same requests with the client's keys, for a server that does not know them.
    pub fn requests_with_keys(&self) -> Vec<Bytes> {
        let session = self.client.session();
        let keys = session.keys();
        self.requests.iter().map(|request| Keys::join(request, &keys)).collect()
    }
}

/// The clients of a database.
pub struct Fleet {
    /// Servers in the order of their parties.
    servers: Vec<Endpoint>,
    name: String,
    weak_prf: WeakPrf,
    /// Clients of a protocol without keys share one entry, because nothing in their requests
    /// distinguishes them.
    clients: Vec<Mutex<Life>>,
    current: RwLock<Arc<Edition>>,
    refreshing: Mutex<()>,
}

impl Fleet {
    /// Creates `count` clients of the database `name` of these servers, given in any order. The
    /// clients have keys once [`Fleet::register`] has been called.
    pub async fn open(
        mut servers: Vec<Endpoint>,
        name: &str,
        count: usize,
        weak_prf: WeakPrf,
    ) -> anyhow::Result<Self> {
        let mut described = Vec::new();
        for server in servers.drain(..) {
            described.push((describe(&server, name, None).await?, server));
        }
        described.sort_by_key(|(description, _)| description.party());
        servers.extend(described.into_iter().map(|(_, server)| server));
        let current = download(&servers, name).await?;
        let keyed = current.description.limits().parts().any(|part| part.keys_bytes > 0);
        let clients = (0..if keyed { count } else { 1 }).map(|_| Mutex::default()).collect();
        let current = RwLock::new(Arc::new(current));
        Ok(Self { servers, name: name.into(), weak_prf, clients, current, refreshing: Mutex::default() })
    }

    /// Returns the servers in the order of their parties.
    pub fn servers(&self) -> &[Endpoint] {
        &self.servers
    }

    /// Returns the version last seen.
    pub fn current(&self) -> Arc<Edition> {
        Arc::clone(&self.current.read())
    }

    /// Creates all clients and registers their keys at the servers.
    pub async fn register(&self) -> anyhow::Result<()> {
        for client in 0..self.clients.len() {
            self.client(client).await?;
        }
        Ok(())
    }

    /// Changes to the version that is served now, after a server has said that `known` is stale.
    /// Returns true if there is another version.
    pub async fn refresh(&self, known: &Version) -> anyhow::Result<bool> {
        // Many look-ups notice a new version at once; only one fetches it.
        let _turn = self.refreshing.lock().await;
        if self.current().description.version() != known {
            return Ok(true);
        }
        let newest = describe_all(&self.servers, &self.name).await?;
        if newest.version() == known {
            return Ok(false);
        }
        let fresh = Arc::new(download(&self.servers, &self.name).await?);
        *self.current.write() = fresh;
        Ok(true)
    }

    /// Makes a client's requests for `ask`, in the version last seen.
    pub async fn prepare(&self, client: usize, ask: &Ask) -> anyhow::Result<Prepared> {
        let (client, ask) = (self.client(client).await?, ask.clone());
        let prepare = move || {
            let mut session = client.asking();
            let round = ask.round(&mut session)?;
            let requests = round.requests.into_iter().map(Bytes::from).collect();
            let (version, limits) = (*session.description().version(), session.description().limits());
            drop(session);
            Ok::<_, ClientError>(Prepared { client, version, limits, requests, pending: round.pending })
        };
        Ok(tokio::task::spawn_blocking(prepare).await??)
    }

    /// Returns a client in the version last seen, with its keys registered at the servers.
    async fn client(&self, client: usize) -> anyhow::Result<Arc<Client>> {
        let mut life = self.clients[client % self.clients.len()].lock().await;
        let current = self.current();
        if let Some(client) = &life.latest
            && client.version() == *current.description.version()
        {
            return Ok(Arc::clone(client));
        }
        let (former, weak_prf) = (life.latest.clone(), self.weak_prf);
        let open = move || {
            let (description, hints) = (current.description.clone(), &current.hints);
            match former {
                Some(former) => former.session().follow(description, hints, weak_prf),
                None => Session::new_with(description, hints, weak_prf, Clock::system()),
            }
        };
        let session = tokio::task::spawn_blocking(open).await??;
        let client = Arc::new(Client { session: RwLock::new(session) });
        self.send_keys(&client, &mut life.keys_sent).await?;
        life.latest = Some(Arc::clone(&client));
        Ok(client)
    }

    /// Registers those of a client's keys that are not in `sent`, at every server.
    async fn send_keys(&self, client: &Client, sent: &mut HashSet<KeysHash>) -> anyhow::Result<()> {
        let uploads: Vec<(KeysHash, Bytes)> = {
            let session = client.session();
            let missing = session.keys().into_iter().filter(|keys| !sent.contains(keys.blake3()));
            missing.map(|keys| (*keys.blake3(), keys.request().into())).collect()
        };
        for (hash, message) in uploads {
            for server in &self.servers {
                let limit = MAX_KEYS_RESPONSE_BYTES;
                let response = server.post("keys", &upload_id(&hash), message.clone(), limit).await;
                let response = response.map_err(|failure| at(server, &failure))?;
                let session = client.session();
                session
                    .keys()
                    .iter()
                    .filter(|keys| *keys.blake3() == hash)
                    .try_for_each(|keys| keys.check(response.clone()))?;
            }
            sent.insert(hash);
        }
        Ok(())
    }
}

/// Returns a request id for an upload of keys. The keys' hash is public, and a repeated upload has
/// the same id.
fn upload_id(hash: &KeysHash) -> String {
    format!("{hash:.32}")
}

fn at(server: &Endpoint, failure: &Failure) -> anyhow::Error {
    match failure {
        Failure::Refused { refusal, .. } => {
            anyhow!("{}: {failure}: {}; {}", server.url(), refusal.message, refusal.remedy)
        }
        _ => anyhow!("{}: {failure}", server.url()),
    }
}

/// Fetches the description of a version, or of the newest.
async fn describe(server: &Endpoint, name: &str, version: Option<&Version>) -> anyhow::Result<Description> {
    let config = version.map_or("config".into(), |version| format!("config?version={version}"));
    let config = server.get(&config, MAX_CONFIG_BYTES).await.map_err(|failure| at(server, &failure))?;
    Ok(Description::parse(name, config)?)
}

/// Returns the description on which all servers agree, of the newest version that all of them
/// answer.
async fn describe_all(servers: &[Endpoint], name: &str) -> anyhow::Result<Description> {
    let mut described = Vec::new();
    for server in servers {
        described.push(describe(server, name, None).await?);
    }
    if described.windows(2).any(|pair| pair[0].version() != pair[1].version())
        && let Some(common) = Description::common_version(&described)
    {
        for (server, description) in servers.iter().zip(&mut described) {
            *description = describe(server, name, Some(&common)).await?;
        }
    }
    Ok(Description::agree(described)?)
}

/// Downloads the version that is served now.
async fn download(servers: &[Endpoint], name: &str) -> anyhow::Result<Edition> {
    for _ in 0..REFRESHES {
        let description = describe_all(servers, name).await?;
        if let Some(hints) = hints(&servers[0], &description).await? {
            return Ok(Edition { description, hints });
        }
    }
    Err(anyhow!("the database changed while it was being fetched, time after time"))
}

/// Downloads the hints of a version's parts. Returns `None` if the server has another version by
/// now.
async fn hints(server: &Endpoint, description: &Description) -> anyhow::Result<Option<Vec<Hint>>> {
    let mut hints = Vec::new();
    for part in description.parts() {
        let bytes = part.hint_bytes();
        ensure!(bytes <= MAX_HINT_BYTES, "the hint has {bytes} bytes, above the limit of {MAX_HINT_BYTES}");
        let downloaded = match bytes {
            0 => Bytes::new(),
            _ => {
                let named = format!("hint?blake3={}", part.hint_blake3());
                match server.get(&named, bytes).await {
                    Err(failure) if failure.refused_for() == Some(Code::UnknownHint) => return Ok(None),
                    hint => hint.map_err(|failure| at(server, &failure)).context("the hint")?,
                }
            }
        };
        hints.push(part.hint(downloaded.into())?);
    }
    Ok(Some(hints))
}

/// True if a refusal may mean that another version is served by now. A version of another shape
/// expects other lengths, and its server rejects the message as malformed before it reads the
/// version.
pub fn may_be_stale(failure: &Failure) -> bool {
    matches!(
        failure.refused_for(),
        Some(Code::StaleVersion | Code::Malformed | Code::TooLarge | Code::NoKeysNeeded)
    )
}
