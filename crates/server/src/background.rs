//! A server on its own threads, inside a process that also does other things.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use spirea_engine::{Engine, State};
use tokio::runtime;

use crate::descriptors::keep_within;
use crate::{Addresses, ServeError, Server, ServerConfig, Stopper};

/// A server on its own threads. It handles no signals. Dropping it stops the server without
/// waiting.
pub struct Background {
    addresses: Addresses,
    engine: Arc<Engine>,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

/// State of a server's databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Some databases are being loaded.
    Loading,
    /// All databases answer.
    Ready,
    /// Some databases could not be loaded: their names, each with the cause.
    Failed(Vec<(String, String)>),
}

impl Background {
    /// Starts a server. When this returns its ports are bound; its databases load in the
    /// background.
    ///
    /// # Errors
    /// Those of [`Server::bind`]; [`ServeError::System`] if the system refuses threads.
    pub fn start(mut config: ServerConfig) -> Result<Self, ServeError> {
        keep_within(&mut config.limits);
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new().name("spirea-serve".into()).spawn(move || {
            let runtime = runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .map_err(ServeError::system("threads"))?;
            let ended = runtime.block_on(async {
                let server = Server::bind(config).await?;
                let begun = (server.addresses(), Arc::clone(server.engine()), server.stopper());
                // If the receiver is gone, so is the stopper.
                let _ = tell.send(begun);
                server.run().await
            });
            // Does not wait for computations whose results nobody needs.
            runtime.shutdown_background();
            ended
        });
        let thread = thread.map_err(ServeError::system("a thread"))?;
        match told.recv() {
            Ok((addresses, engine, stopper)) => Ok(Self { addresses, engine, stopper, thread: Some(thread) }),
            Err(_) => match thread.join() {
                Ok(ended) => Err(ended.expect_err("a server that has its ports says so")),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }

    /// Returns the addresses on which the server listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns the state of the databases.
    pub fn readiness(&self) -> Readiness {
        let statuses = self.engine.statuses();
        let failed = statuses.iter().filter_map(|status| match &status.state {
            State::Failed(cause) => Some((status.name.clone(), cause.clone())),
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        if !failed.is_empty() {
            Readiness::Failed(failed)
        } else if statuses.iter().all(|status| matches!(status.state, State::Ready(_))) {
            Readiness::Ready
        } else {
            Readiness::Loading
        }
    }

    /// Stops the server and waits for its end; accepted requests may finish within the drain
    /// timeout.
    ///
    /// # Errors
    /// Those of [`Server::run`].
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.stopper.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}
