//! The servers of one database, asked at the same time.

use std::panic::resume_unwind;
use std::thread;

use spirea_protocols::Party;
use spirea_wire::Version;

use super::ClientOptions;
use super::transport::Transport;
use crate::{ClientError, Description};

/// One server, or two that must not work together.
pub(super) struct Servers {
    name: String,
    /// In the order of their parties, once they have described themselves.
    transports: Vec<Transport>,
}

impl Servers {
    /// The servers at these addresses, in any order, of the database `name`.
    pub fn new(urls: &[&str], name: &str, options: &ClientOptions) -> Result<Self, ClientError> {
        if options.replicas.len() > urls.len() {
            let text = "there are further addresses of more servers than there are servers";
            return Err(ClientError::BadOption(text.into()));
        }
        let replicas = |i: usize| options.replicas.get(i).into_iter().flatten().map(String::as_str);
        let transports = urls.iter().enumerate().map(|(i, url)| {
            let addresses: Vec<&str> = [*url].into_iter().chain(replicas(i)).collect();
            Transport::new(&addresses, name, options)
        });
        Ok(Self { name: name.into(), transports: transports.collect::<Result<_, _>>()? })
    }

    /// The description that they agree on: of the newest version, or, while one of two has not got it yet or has
    /// already got another, of the newest that both answer.
    pub fn describe(&mut self) -> Result<Description, ClientError> {
        let locate = |_, url, cause| ClientError::Server { url, cause };
        let ask = |version: Option<&Version>, transport: &Transport| {
            Description::parse(&self.name, transport.config(version)?)
        };
        let mut described = self.at_once(|_, transport| ask(None, transport), locate)?;
        if described.windows(2).any(|pair| pair[0].version() != pair[1].version())
            && let Some(common) = Description::common_version(&described)
        {
            described = self.at_once(|_, transport| ask(Some(&common), transport), locate)?;
        }
        let mut servers: Vec<_> = self.transports.drain(..).zip(described).collect();
        servers.sort_by_key(|(_, description)| description.party());
        for (transport, description) in &mut servers {
            transport.expect_party(description.party());
        }
        let (transports, described) = servers.into_iter().unzip();
        self.transports = transports;
        Description::agree(described)
    }

    /// What each says to a request, in the order of their parties; of two failures, party 0's.
    pub fn ask<T: Send>(
        &self,
        ask: impl Fn(usize, &Transport) -> Result<T, ClientError> + Sync,
    ) -> Result<Vec<T>, ClientError> {
        self.at_once(ask, Self::party)
    }

    /// What happened with the answer of the `i`-th, located.
    pub fn located(&self, i: usize, error: ClientError) -> ClientError {
        self.locate(i, error, Self::party)
    }

    fn party(i: usize, url: String, cause: Box<ClientError>) -> ClientError {
        ClientError::Party { party: Party::BOTH[i], url, cause }
    }

    /// Of two servers, says which one failed.
    fn locate(
        &self,
        i: usize,
        error: ClientError,
        locate: impl Fn(usize, String, Box<ClientError>) -> ClientError,
    ) -> ClientError {
        match &self.transports[..] {
            [_] => error,
            several => locate(i, several[i].url().into(), Box::new(error)),
        }
    }

    /// The one that is party 0 or alone.
    pub fn first(&self) -> &Transport {
        &self.transports[0]
    }

    /// Asks all at the same time, the first on this thread. Of two servers, `locate` says which of them failed.
    fn at_once<T: Send>(
        &self,
        ask: impl Fn(usize, &Transport) -> Result<T, ClientError> + Sync,
        locate: impl Fn(usize, String, Box<ClientError>) -> ClientError,
    ) -> Result<Vec<T>, ClientError> {
        let (ask, servers) = (&ask, &self.transports);
        let said: Vec<_> = thread::scope(|scope| {
            let others = servers.iter().enumerate().skip(1);
            let others: Vec<_> = others.map(|(i, server)| scope.spawn(move || ask(i, server))).collect();
            let first = servers.first().map(|server| ask(0, server));
            let others =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            first.into_iter().chain(others).collect()
        });
        let located = |(i, result): (usize, Result<T, ClientError>)| {
            result.map_err(|error| self.locate(i, error, &locate))
        };
        said.into_iter().enumerate().map(located).collect()
    }
}
