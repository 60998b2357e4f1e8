//! Admission: tokens and their scopes, quotas, and limits for concurrent requests.

mod charges;
mod host;
mod origin;
mod quota;
mod secret;
mod shares;
mod tokens;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use parking_lot::Mutex;
use spirea_engine::KeyOwner;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use self::charges::{Charge, Charges, RequestId};
pub(crate) use self::host::one_host;
pub use self::origin::OperatorNames;
pub(crate) use self::quota::{Exceeded, Window};
pub use self::quota::{Quota, QuotaError};
pub use self::secret::{Secret, TOKEN_PREFIX};
pub(crate) use self::shares::{Share, Shares};
pub use self::tokens::{Scope, TokensError};
pub(crate) use self::tokens::{Token, Tokens, hash};
use crate::Limits;
use crate::held::Hold;
use crate::refused::Refused;

/// Header with a request's id, by which the server recognises retries.
pub const REQUEST_ID: &str = "spirea-request-id";

/// Access control of a port.
pub(crate) enum Access {
    /// No tokens, everything is allowed: for development.
    Open,
    /// Requests need a token.
    Tokens(Arc<Tokens>),
}

/// Address of a connection's peer.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub IpAddr);

impl Peer {
    /// Returns the bytes that identify one client's network: all of an IPv4 address, the first half
    /// of an IPv6 address.
    pub fn network(self) -> Vec<u8> {
        match self.0.to_canonical() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets()[..8].to_vec(),
        }
    }
}

/// Admits requests: checks tokens and bounds concurrent requests.
pub(crate) struct Gate {
    access: Access,
    permits: Arc<Semaphore>,
    client_permits: Arc<Shares>,
    client_bodies: Arc<Shares>,
    charges: Charges,
}

impl Gate {
    /// Creates a gate. It limits the concurrent requests, in total and for each client, and each
    /// client's memory for bodies.
    pub fn new(access: Access, limits: &Limits) -> Self {
        let permits = Arc::new(Semaphore::new(limits.requests.clamp(1, Semaphore::MAX_PERMITS)));
        let client_permits = Shares::new(limits.client_requests as u64);
        let client_bodies = Shares::new(limits.client_body_memory);
        Self { access, permits, client_permits, client_bodies, charges: Charges::default() }
    }

    /// Admits a request of a client that cannot have a token, if there is room.
    pub fn admit_anyone(self: &Arc<Self>, request: &Request) -> Result<(Caller, Permit), Refused> {
        let peer = request.extensions().get().copied();
        self.admit_caller(Caller { gate: Arc::clone(self), token: None, peer, request_id: None })
    }

    /// Admits a request if its token has the scope and there is room.
    pub fn admit(self: &Arc<Self>, request: &Request, scope: Scope) -> Result<(Caller, Permit), Refused> {
        let (headers, peer) = (request.headers(), request.extensions().get().copied());
        let token = match &self.access {
            Access::Open => None,
            Access::Tokens(tokens) => Some(authenticate(tokens, headers, scope)?),
        };
        let request_id = headers.get(REQUEST_ID).map(|id| RequestId::parse(id.as_bytes())).transpose()?;
        self.admit_caller(Caller { gate: Arc::clone(self), token, peer, request_id })
    }

    fn admit_caller(&self, caller: Caller) -> Result<(Caller, Permit), Refused> {
        let share = self.client_permits.take(&caller.client(), 1).ok_or_else(Refused::too_many_of_client)?;
        let permit =
            Arc::clone(&self.permits).try_acquire_owned().map_err(|_| Refused::too_many_requests())?;
        let own = caller.token.as_ref().and_then(|token| token.usage.permits.clone());
        let own = own.map(Semaphore::try_acquire_owned).transpose();
        let own = own.map_err(|_| Refused::too_many_of_token())?;
        Ok((caller, Permit(Arc::new(Mutex::new(Some(Places { _all: permit, _share: share, _own: own }))))))
    }
}

fn authenticate(tokens: &Tokens, headers: &HeaderMap, scope: Scope) -> Result<Token, Refused> {
    let given = headers.get(AUTHORIZATION).ok_or_else(Refused::no_token)?;
    let presented = bearer(given.as_bytes()).ok_or_else(Refused::no_token)?;
    let token = tokens.find(presented).ok_or_else(Refused::unknown_token)?;
    if token.scopes.contains(&scope) { Ok(token) } else { Err(Refused::forbidden(scope)) }
}

/// Returns the token of an `Authorization` header. The scheme's name is case-insensitive.
pub(crate) fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Permit to serve a request, released when the response has been sent or the client has gone.
#[derive(Clone)]
pub(crate) struct Permit(Arc<Mutex<Option<Places>>>);

/// Places of a request among all requests, among those of its client, and among those of its token.
struct Places {
    _all: OwnedSemaphorePermit,
    _share: Share,
    _own: Option<OwnedSemaphorePermit>,
}

impl Permit {
    /// Gives the places to other requests, for a request that only waits and has another bound.
    pub fn release(&self) {
        self.0.lock().take();
    }
}

impl Hold for Permit {}

/// The sender of a request, to whom queries are charged.
#[derive(Clone)]
pub(crate) struct Caller {
    gate: Arc<Gate>,
    token: Option<Token>,
    peer: Option<Peer>,
    request_id: Option<RequestId>,
}

impl Caller {
    /// Returns the identity to which shares belong: a token or, in development, an address.
    fn client(&self) -> Vec<u8> {
        match (&self.token, self.peer) {
            (Some(token), _) => [b"token ", token.name.as_bytes()].concat(),
            (None, Some(peer)) => [&b"address "[..], &peer.network()].concat(),
            (None, None) => Vec::new(),
        }
    }

    /// Returns the bytes that identify the client's network; empty if its address is unknown.
    pub fn network(&self) -> Vec<u8> {
        self.peer.map(Peer::network).unwrap_or_default()
    }

    /// Returns the owner of the evaluation keys that this request registers.
    pub fn key_owner(&self) -> Option<KeyOwner> {
        let client = self.client();
        (!client.is_empty()).then(|| KeyOwner::new(&client))
    }

    /// Takes `bytes` for a body from the client's share of memory.
    pub fn body_share(&self, bytes: u64) -> Result<Share, Refused> {
        self.gate.client_bodies.take(&self.client(), bytes).ok_or_else(Refused::too_many_of_client)
    }

    /// Charges the token's quota with the `queries` of a request whose body is `body`. A retry of a
    /// charged request is free. Dropping the charge gives it back, unless [`Charge::keep`] was
    /// called because the request was accepted.
    pub fn charge(&self, body: &[u8], queries: usize) -> Result<Charge<'_>, Refused> {
        let Some(token) = self.token.as_ref().filter(|token| token.usage.quota.is_some()) else {
            return Ok(Charge::nothing());
        };
        self.gate.charges.charge(token, self.request_id, body, queries as u64, Instant::now())
    }
}
