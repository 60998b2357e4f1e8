//! Issuing of private tokens. A bearer token identifies a user, whose tier sets the number of
//! private tokens.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use serde_json::{Value, json};
use spirea_apple::privacy_pass::{RequestError, TOKEN_TYPE, TokenRequest};

use super::AppleRefused;
use super::quota::UsedUp;
use super::token_file::Signer;
use crate::access::{Exceeded, Window, bearer};

/// Path of `POST` requests for tokens.
pub(crate) const ISSUE: &str = "/issue";

/// User of a tier.
pub(crate) struct User {
    /// Key that signs the tier's tokens.
    signer: Arc<Signer>,
    /// Used part of the allowance. It survives a new reading of the file.
    window: Arc<Mutex<Window>>,
}

impl User {
    /// Returns the public key that signs the user's tokens, as `SubjectPublicKeyInfo`.
    pub fn key(&self) -> Vec<u8> {
        self.signer.key.public().spki().to_vec()
    }
}

/// Issuer of private tokens.
pub(crate) struct Issuer {
    /// Keys of each tier. The first key signs new tokens; the others are only listed, while keys
    /// are being replaced.
    signers: BTreeMap<String, Vec<Arc<Signer>>>,
    /// Users by the BLAKE3 hash of their token: the time of a look-up here depends on the hash, not
    /// on the token.
    users: HashMap<[u8; 32], Arc<User>>,
    /// Requests for tokens, by outcome.
    outcomes: IntCounterVec,
}

impl Issuer {
    /// Creates an issuer. Every tier of `users` has a signer. Users of the issuer `before` keep
    /// what is left of their allowance.
    pub(super) fn new(
        signers: BTreeMap<String, Vec<Signer>>,
        users: impl IntoIterator<Item = ([u8; 32], String)>,
        before: Option<&Self>,
        outcomes: IntCounterVec,
    ) -> Self {
        let shared = |keys: Vec<Signer>| keys.into_iter().map(Arc::new).collect();
        let signers: BTreeMap<_, Vec<_>> =
            signers.into_iter().map(|(tier, keys)| (tier, shared(keys))).collect();
        let user = |(hash, tier)| {
            let signer = Arc::clone(signers.get(&tier)?.first()?);
            let known = before.and_then(|before| before.users.get(&hash));
            let window = known.map(|user| Arc::clone(&user.window)).unwrap_or_default();
            Some((hash, Arc::new(User { signer, window })))
        };
        let users = users.into_iter().filter_map(user).collect();
        Self { signers, users, outcomes }
    }

    /// Returns the directory of RFC 9578 (section 4).
    pub fn directory(&self) -> Value {
        let keys = self.signers.values().flatten().map(|signer| signer.key.public().spki());
        let key = |spki| json!({ "token-type": TOKEN_TYPE, "token-key": URL_SAFE.encode(spki) });
        json!({ "issuer-request-uri": ISSUE, "token-keys": keys.map(key).collect::<Vec<_>>() })
    }

    /// Takes a token from a user's allowance and signs it. A request that is refused costs nothing.
    pub fn issue(&self, user: &User, body: &[u8], now: Instant) -> Result<Vec<u8>, AppleRefused> {
        let signer = &user.signer;
        let request = TokenRequest::from_bytes(body).map_err(|error| self.malformed(error))?;
        if let Some(quota) = signer.issues {
            user.window.lock().take(quota, 1, now).map_err(|exceeded| {
                self.count("used_up");
                let next = match exceeded {
                    Exceeded::Never => None,
                    Exceeded::For(time) => Some(time),
                };
                AppleRefused::from(UsedUp { owner: "user", quota, next })
            })?;
        }
        let signature = signer.key.sign(&request).map_err(|error| {
            user.window.lock().give_back(1, now);
            self.malformed(error)
        })?;
        self.count("issued");
        Ok(signature.into())
    }

    /// Returns the user whose token a request has.
    pub fn user(&self, headers: &HeaderMap) -> Result<Arc<User>, AppleRefused> {
        let presented = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        let user = presented.and_then(|token| self.users.get(blake3::hash(token).as_bytes()));
        user.cloned().ok_or_else(|| {
            self.count("unknown_user");
            let message = "the request has no user's token of this issuer: send Authorization: Bearer ...";
            AppleRefused::unauthorized(message, HeaderValue::from_static("Bearer"))
        })
    }

    fn malformed(&self, error: RequestError) -> AppleRefused {
        self.count("malformed");
        let status = match error {
            RequestError::Signing => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        AppleRefused::new(status, error.to_string())
    }

    fn count(&self, outcome: &str) {
        self.outcomes.with_label_values(&[outcome]).inc();
    }
}
