//! Files that are read again: the certificate, the tokens, the private tokens and the gateway's
//! keys when they change, snapshots when they are watched, and all of them on request.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use spirea_store::Repository;
use tokio::sync::Notify;

use crate::access::Tokens;
use crate::app::App;
use crate::apple::{GatewayKeys, PrivateTokens};
use crate::config::ServerConfig;
use crate::tls::Certificates;

/// Polling interval for changed files. Polling works on every file system, even when a folder is
/// swapped as a whole.
const LOOK: Duration = Duration::from_secs(2);

/// Asks a server to read its certificate, its tokens, its private tokens, its gateway's keys and
/// its folders of snapshots again, even if they do not seem to have changed.
#[derive(Clone, Debug, Default)]
pub struct Reloader(Arc<Notify>);

impl Reloader {
    /// Requests a reload; returns at once.
    pub fn reload(&self) {
        self.0.notify_one();
    }
}

/// The files to watch.
pub(crate) struct Watched {
    pub certificates: Option<Arc<Certificates>>,
    pub tokens: Option<Arc<Tokens>>,
    pub private_tokens: Option<Arc<PrivateTokens>>,
    pub gateway: Option<Arc<GatewayKeys>>,
    /// Folders whose snapshots are adopted when they change.
    pub snapshots: Vec<PathBuf>,
    /// Stamps of the files before they were first read.
    pub opened: Stamps,
}

/// State of files: time of the last change and length of each.
type Stamp = Vec<Option<(SystemTime, u64)>>;

#[derive(Default)]
pub(crate) struct Stamps {
    certificates: Stamp,
    tokens: Stamp,
    private_tokens: Stamp,
    gateway: Stamp,
    snapshots: Stamp,
}

impl Stamps {
    /// Returns the stamps of a configuration's files.
    pub fn of(config: &ServerConfig) -> Self {
        Self {
            certificates: stamp(config.tls.iter().flat_map(|files| [&*files.certificate, &*files.key])),
            tokens: stamp(config.tokens.as_deref()),
            private_tokens: stamp(config.apple.tokens.as_deref()),
            gateway: stamp(config.apple.gateway.as_deref()),
            snapshots: stamp_folders(&watched_folders(config)),
        }
    }
}

/// Returns the folders to watch: none unless the configuration says so. Repositories that the
/// server publishes into are not watched. Other repositories can be watched, because the folder of
/// records changes with each version.
pub(crate) fn watched_folders(config: &ServerConfig) -> Vec<PathBuf> {
    let is_read = |folder: &PathBuf| !Repository::is_one(folder) || Repository::is_read_only(folder);
    let folders = config.snapshots.iter().filter(|folder| config.watch && is_read(folder));
    folders.cloned().collect()
}

/// Returns the stamp of the files in `folders`.
fn stamp_folders(folders: &[PathBuf]) -> Stamp {
    let files = |folder: &PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
    };
    let files: Vec<_> = folders.iter().flat_map(files).collect();
    stamp(files.iter().map(PathBuf::as_path))
}

fn stamp<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Stamp {
    let look = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    paths.into_iter().map(look).collect()
}

/// Stamps of the files that were seen.
#[derive(Default)]
struct Seen {
    /// Stamps at the previous look.
    before: Stamps,
    /// Stamp of the snapshots that were read last.
    tried: Stamp,
}

impl From<Stamps> for Seen {
    fn from(before: Stamps) -> Self {
        Self { tried: before.snapshots.clone(), before }
    }
}

/// Starts to read the folders of snapshots again, which takes as long as loading them.
fn reload_snapshots(app: &Arc<App>) {
    let Some(library) = &app.library else { return };
    let told = Arc::clone(app);
    library.spawn_reload(move |adopted| told.metrics.reloaded("snapshots", adopted));
}

impl Watched {
    /// Reloads files when they change or when `reloader` asks.
    pub async fn run(mut self, app: Arc<App>, reloader: Reloader) {
        let mut seen = Seen::from(std::mem::take(&mut self.opened));
        let watched = Arc::new(self);
        loop {
            let asked = tokio::select! {
                () = reloader.0.notified() => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            let (watched, app) = (Arc::clone(&watched), Arc::clone(&app));
            let look = move || {
                let now = watched.stamps();
                let Seen { before, mut tried } = seen;
                if asked || now.certificates != before.certificates {
                    watched.reload_certificates(&app);
                }
                if asked || now.tokens != before.tokens {
                    watched.reload_tokens(&app);
                }
                if asked || now.private_tokens != before.private_tokens {
                    watched.reload_private_tokens(&app);
                }
                if asked || now.gateway != before.gateway {
                    watched.reload_gateway(&app);
                }
                // A folder that still changes may hold files that are not complete.
                let settled = now.snapshots == before.snapshots;
                if asked || (settled && now.snapshots != tried) {
                    tried.clone_from(&now.snapshots);
                    reload_snapshots(&app);
                }
                Seen { before: now, tried }
            };
            // After a panic the stamps are empty, so the files are read again.
            seen = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        }
    }

    fn stamps(&self) -> Stamps {
        let certificates = self.certificates.iter().flat_map(|certificates| certificates.paths());
        Stamps {
            certificates: stamp(certificates),
            tokens: stamp(self.tokens.iter().map(|tokens| tokens.path())),
            private_tokens: stamp(self.private_tokens.iter().map(|tokens| tokens.path())),
            gateway: stamp(self.gateway.iter().map(|keys| keys.path())),
            snapshots: stamp_folders(&self.snapshots),
        }
    }

    fn reload_certificates(&self, app: &App) {
        let Some(certificates) = &self.certificates else { return };
        let read = "the certificate was read again; new connections get it";
        told(app, "certificate", certificates.reload(), read, "the certificate stays as it was");
    }

    fn reload_tokens(&self, app: &App) {
        let Some(tokens) = &self.tokens else { return };
        told(app, "tokens", tokens.reload(), "the tokens were read again", "the tokens stay as they were");
    }

    fn reload_private_tokens(&self, app: &App) {
        let Some(tokens) = &self.private_tokens else { return };
        let (read, kept) = ("the private tokens were read again", "the private tokens stay as they were");
        told(app, "private_tokens", tokens.reload(), read, kept);
    }

    fn reload_gateway(&self, app: &App) {
        let Some(keys) = &self.gateway else { return };
        let (read, kept) = ("the gateway's keys were read again", "the gateway's keys stay as they were");
        told(app, "gateway", keys.reload(), read, kept);
    }
}

/// Counts the outcome of reading `what` again, and logs it: as `read` after a success, otherwise as
/// `kept`.
fn told(app: &App, what: &str, outcome: Result<(), impl Display>, read: &str, kept: &str) {
    app.metrics.reloaded(what, outcome.is_ok());
    match outcome {
        Ok(()) => tracing::info!("{read}"),
        Err(error) => tracing::error!(%error, "{kept}"),
    }
}
