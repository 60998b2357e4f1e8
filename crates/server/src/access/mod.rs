//! Who may ask: tokens and their scopes, quotas, and how many requests are served at once.

mod charges;
mod quota;
mod secret;
mod tokens;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use spirea_engine::KeyOwner;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use self::charges::{Charge, Charges, RequestId};
pub use self::quota::{Quota, QuotaError};
pub use self::secret::{Secret, TOKEN_PREFIX};
pub use self::tokens::{Scope, TokensError};
pub(crate) use self::tokens::{Token, Tokens};
use crate::refused::Refused;

/// The header that names a request, so that its retries are known for what they are.
pub const REQUEST_ID: &str = "spirea-request-id";

/// Who may ask.
pub(crate) enum Access {
    /// Everyone, for everything: development.
    Open,
    /// Whoever has a token.
    Tokens(Arc<Tokens>),
}

/// Where a connection comes from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub IpAddr);

impl Peer {
    /// What one client has: an address, of version 6 the first half of one, which is a network's.
    fn network(self) -> Vec<u8> {
        match self.0.to_canonical() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets()[..8].to_vec(),
        }
    }
}

/// Admits requests: their tokens, and how many are served at once.
pub(crate) struct Gate {
    access: Access,
    places: Arc<Semaphore>,
    charges: Charges,
}

impl Gate {
    /// A gate for at most `requests` requests at once, at least 1.
    pub fn new(access: Access, requests: usize) -> Self {
        let places = Arc::new(Semaphore::new(requests.clamp(1, Semaphore::MAX_PERMITS)));
        Self { access, places, charges: Charges::default() }
    }

    /// Lets a request in, if its token has the scope and there is room.
    pub fn admit(self: &Arc<Self>, request: &Request, scope: Scope) -> Result<(Caller, Place), Refused> {
        let (headers, peer) = (request.headers(), request.extensions().get().copied());
        let token = match &self.access {
            Access::Open => None,
            Access::Tokens(tokens) => Some(authenticate(tokens, headers, scope)?),
        };
        let request_id = headers.get(REQUEST_ID).map(|id| RequestId::parse(id.as_bytes())).transpose()?;
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Refused::too_many_requests())?;
        let own = token.as_ref().and_then(|token| token.usage.permits.clone());
        let own = own.map(Semaphore::try_acquire_owned).transpose();
        let own = own.map_err(|_| Refused::too_many_of_token())?;
        Ok((Caller { gate: Arc::clone(self), token, peer, request_id }, Place { _all: place, _own: own }))
    }
}

fn authenticate(tokens: &Tokens, headers: &HeaderMap, scope: Scope) -> Result<Token, Refused> {
    let given = headers.get(AUTHORIZATION).ok_or_else(Refused::no_token)?;
    let presented = bearer(given.as_bytes()).ok_or_else(Refused::no_token)?;
    let token = tokens.find(presented).ok_or_else(Refused::unknown_token)?;
    if token.scopes.contains(&scope) { Ok(token) } else { Err(Refused::forbidden(scope)) }
}

/// The token of an `Authorization` header. The scheme's letters may have either case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The places that a request has, given back when its response has been sent or its client has gone.
pub(crate) struct Place {
    _all: OwnedSemaphorePermit,
    _own: Option<OwnedSemaphorePermit>,
}

/// Whose request it is: what is charged for it.
#[derive(Clone)]
pub(crate) struct Caller {
    gate: Arc<Gate>,
    token: Option<Token>,
    peer: Option<Peer>,
    request_id: Option<RequestId>,
}

impl Caller {
    /// Whose evaluation keys are those that the request registers: the token's, or in development the address's.
    pub fn key_owner(&self) -> Option<KeyOwner> {
        match (&self.token, self.peer) {
            (Some(token), _) => Some(KeyOwner::new(&[b"token ", token.name.as_bytes()].concat())),
            (None, Some(peer)) => Some(KeyOwner::new(&[&b"address "[..], &peer.network()].concat())),
            (None, None) => None,
        }
    }

    /// Charges the token's quota with the queries of a request whose body is `body`. A retry of a request that
    /// was charged costs nothing. Unless [`Charge::keep`] says that the request was accepted, dropping the
    /// charge gives it back.
    pub fn charge(&self, body: &[u8], queries: usize) -> Result<Charge<'_>, Refused> {
        let Some(token) = self.token.as_ref().filter(|token| token.usage.quota.is_some()) else {
            return Ok(Charge::nothing());
        };
        self.gate.charges.charge(token, self.request_id, body, queries as u64, Instant::now())
    }
}
