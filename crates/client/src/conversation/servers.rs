//! The servers of one database, queried in parallel.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use spirea_protocols::Party;

use super::Lines;
use super::server::Server;
use crate::{ClientError, Clock, Description, Policy};

/// One server, or two servers that must not collude.
pub(crate) struct Servers {
    lines: Lines,
    /// Servers in the order of their parties, once they have described themselves.
    servers: Vec<Server>,
}

impl Servers {
    /// Creates the servers of the database `name`, in any order, each with its addresses.
    pub fn new(
        addresses: &[Vec<String>],
        name: &str,
        policy: &Policy,
        clock: Clock,
    ) -> Result<Self, ClientError> {
        let valid = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if !(1..=128).contains(&name.len()) || !name.bytes().all(valid) {
            let text =
                format!("{name:?} names no database: a name has 1 to 128 of the characters a-z, 0-9 and -");
            return Err(ClientError::BadAddress(text));
        }
        if addresses.iter().any(Vec::is_empty) {
            return Err(ClientError::BadAddress("a server has no address".into()));
        }
        let lines = Lines::new(addresses.len(), clock);
        let server = |(i, urls): (usize, &Vec<String>)| Server::new(lines.to(i), urls, name, policy);
        let servers = addresses.iter().enumerate().map(server).collect();
        Ok(Self { lines, servers })
    }

    /// Creates handles of the same servers for another conversation at the same time.
    pub fn beside(&self) -> Self {
        let lines = self.lines.beside();
        let servers = self.servers.iter().map(|server| server.among(&lines)).collect();
        Self { lines, servers }
    }

    /// Returns the lines to the servers.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Returns the only server, or party 0.
    pub(super) fn first(&mut self) -> &mut Server {
        &mut self.servers[0]
    }

    /// Returns the description on which the servers agree. If two servers have different newest
    /// versions, describes the newest version that both answer.
    pub async fn describe(&mut self) -> Result<Description, ClientError> {
        let described = at_once(self.servers.iter_mut().map(|server| server.describe(None))).await;
        let mut described = self.all(described, Self::at_address)?;
        if described.windows(2).any(|pair| pair[0].version() != pair[1].version())
            && let Some(common) = Description::common_version(&described)
        {
            let again = at_once(self.servers.iter_mut().map(|server| server.describe(Some(&common)))).await;
            described = self.all(again, Self::at_address)?;
        }
        let mut servers: Vec<_> = self.servers.drain(..).zip(described).collect();
        servers.sort_by_key(|(_, description)| description.party());
        for (server, description) in &mut servers {
            server.expect_party(description.party());
        }
        let (servers, described) = servers.into_iter().unzip();
        self.servers = servers;
        Description::agree(described)
    }

    /// Sends each server its query and returns the responses, of at most `limit` bytes each, in the
    /// order of the parties. If both fail, returns the error of party 0. `affinity` is the value of
    /// a header by which a balancer may choose the replica.
    pub async fn query(
        &mut self,
        requests: &[Bytes],
        affinity: Option<&str>,
        limit: u64,
    ) -> Result<Vec<Bytes>, ClientError> {
        let asked = self.servers.iter_mut().zip(requests);
        let said =
            at_once(asked.map(|(server, request)| server.query(request.clone(), affinity, limit))).await;
        self.all(said, Self::of_party)
    }

    /// Uploads keys to all servers and returns their responses, in the order of the parties.
    /// `affinity` is as in [`Servers::query`].
    pub async fn keys(&mut self, request: &Bytes, affinity: Option<&str>) -> Result<Vec<Bytes>, ClientError> {
        let said =
            at_once(self.servers.iter_mut().map(|server| server.keys(request.clone(), affinity))).await;
        self.all(said, Self::of_party)
    }

    /// Adds the party and address of server `i` to an error of its answer.
    pub fn located(&self, i: usize, error: ClientError) -> ClientError {
        self.locate(i, error, Self::of_party)
    }

    fn at_address(_: usize, url: String, cause: Box<ClientError>) -> ClientError {
        ClientError::Server { url, cause }
    }

    fn of_party(i: usize, url: String, cause: Box<ClientError>) -> ClientError {
        ClientError::Party { party: Party::BOTH[i], url, cause }
    }

    /// Returns all results, or the error of the first server that failed.
    fn all<T>(
        &self,
        said: Vec<Result<T, ClientError>>,
        locate: fn(usize, String, Box<ClientError>) -> ClientError,
    ) -> Result<Vec<T>, ClientError> {
        let located =
            |(i, said): (usize, Result<T, ClientError>)| said.map_err(|error| self.locate(i, error, locate));
        said.into_iter().enumerate().map(located).collect()
    }

    /// Adds to an error the failed server's party, if there are two servers, and its address, if it
    /// has several.
    fn locate(
        &self,
        i: usize,
        error: ClientError,
        locate: fn(usize, String, Box<ClientError>) -> ClientError,
    ) -> ClientError {
        match &self.servers[..] {
            [server] => server.located(error),
            several => locate(i, several[i].url().into(), Box::new(error)),
        }
    }
}

/// Runs these futures side by side and returns all results.
async fn at_once<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    enum Course<F: Future> {
        Running(Pin<Box<F>>),
        Over(F::Output),
    }
    let mut courses: Vec<Course<F>> = all.map(|one| Course::Running(Box::pin(one))).collect();
    poll_fn(|context| {
        let mut running = false;
        for course in &mut courses {
            if let Course::Running(one) = course {
                match one.as_mut().poll(context) {
                    Poll::Ready(output) => *course = Course::Over(output),
                    Poll::Pending => running = true,
                }
            }
        }
        if running { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let output = |course| match course {
        Course::Over(output) => Some(output),
        Course::Running(_) => None,
    };
    courses.into_iter().filter_map(output).collect()
}
