//! Reloads files when they change: the certificate and the tokens.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use crate::access::Tokens;
use crate::app::App;
use crate::config::ServerConfig;
use crate::tls::Certificates;

/// Polling interval for changed files. Polling works on every file system, even when a folder is
/// swapped as a whole.
const LOOK: Duration = Duration::from_secs(2);

/// Handle that makes a server reload its certificate and its tokens, even if they seem unchanged.
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
    /// Stamps of the files, taken before their first reading.
    pub opened: Stamps,
}

/// State of files: time of the last change and length of each.
type Stamp = Vec<Option<(SystemTime, u64)>>;

#[derive(Default)]
pub(crate) struct Stamps {
    certificates: Stamp,
    tokens: Stamp,
}

impl Stamps {
    /// Returns the stamps of a configuration's files.
    pub fn of(config: &ServerConfig) -> Self {
        Self {
            certificates: stamp(config.tls.iter().flat_map(|files| [&*files.certificate, &*files.key])),
            tokens: stamp(config.tokens.as_deref()),
        }
    }
}

fn stamp<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Stamp {
    let look = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    paths.into_iter().map(look).collect()
}

impl Watched {
    /// Reloads files when they change or when `reloader` asks.
    pub async fn run(mut self, app: Arc<App>, reloader: Reloader) {
        let mut seen = std::mem::take(&mut self.opened);
        let watched = Arc::new(self);
        loop {
            let asked = tokio::select! {
                () = reloader.0.notified() => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            let (watched, app) = (Arc::clone(&watched), Arc::clone(&app));
            let look = move || {
                let now = watched.stamps();
                watched.reload(
                    &app,
                    asked || now.certificates != seen.certificates,
                    asked || now.tokens != seen.tokens,
                );
                now
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
        }
    }

    fn reload(&self, app: &App, certificates: bool, tokens: bool) {
        if let Some(certificates) = self.certificates.as_ref().filter(|_| certificates) {
            let outcome = certificates.reload();
            app.metrics.reloaded("certificate", outcome.is_ok());
            match outcome {
                Ok(()) => tracing::info!("the certificate was read again; new connections get it"),
                Err(error) => tracing::error!(%error, "the certificate stays as it was"),
            }
        }
        if let Some(tokens) = self.tokens.as_ref().filter(|_| tokens) {
            let outcome = tokens.reload();
            app.metrics.reloaded("tokens", outcome.is_ok());
            match outcome {
                Ok(()) => tracing::info!("the tokens were read again"),
                Err(error) => tracing::error!(%error, "the tokens stay as they were"),
            }
        }
    }
}
