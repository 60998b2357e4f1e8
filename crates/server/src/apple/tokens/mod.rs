//! Redemption of private tokens: a request of an Apple client is admitted by a token that an issuer
//! signed without seeing it. A token is spent once. If the file that lists the issuers' keys also
//! lists private keys, this server is an issuer.

mod spent;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use parking_lot::RwLock;
use prometheus::IntCounterVec;
use spirea_apple::privacy_pass::{Token, TokenError, TokenKey};

use self::spent::{SpendError, Spent};
use super::token_file::{Accepts, PrivateTokensError, Rule, Rules, read};
use super::{AppleRefused, Issuer};

/// Reason why a token is refused.
#[derive(Debug, thiserror::Error)]
enum Unacceptable {
    #[error("the request has no private token: send Authorization: PrivateToken token=...")]
    Missing,
    #[error(transparent)]
    Malformed(#[from] TokenError),
    #[error("no token key of this server has the token's key id")]
    Key,
    #[error("the token answers the challenge of another issuer")]
    Challenge,
    #[error("the token's signature is wrong")]
    Signature,
    #[error(transparent)]
    Unspent(#[from] SpendError),
}

impl Unacceptable {
    /// Returns the reason's name in metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed(_) => "malformed",
            Self::Key => "unknown_key",
            Self::Challenge => "other_challenge",
            Self::Signature => "forged",
            Self::Unspent(SpendError::Twice) => "spent_before",
            Self::Unspent(SpendError::Full) => "no_room",
            Self::Unspent(SpendError::Write(_)) => "not_written",
        }
    }
}

/// A key with its spent tokens.
struct Accepted {
    tier: String,
    key: TokenKey,
    queries: Option<u64>,
    /// Maximum number of spent tokens.
    most_spent: usize,
    /// Kept as long as the key is in the file.
    spent: Arc<Spent>,
}

/// Private tokens that admit requests: the content of a file, as of its last successful reading.
pub(crate) struct PrivateTokens {
    path: PathBuf,
    content: RwLock<Arc<Content>>,
    /// Tokens by outcome.
    outcomes: IntCounterVec,
}

/// Keys whose private tokens admit requests.
struct Content {
    /// Keys by the id that tokens name.
    keys: BTreeMap<[u8; 32], Arc<Accepted>>,
    /// Digest of the only challenge whose tokens are accepted; `None` for any.
    challenge: Option<[u8; 32]>,
    /// Value of `WWW-Authenticate`.
    asks: HeaderValue,
    /// Issuer of private tokens, if the file has private keys.
    issuer: Option<Arc<Issuer>>,
}

/// A valid token, not yet spent.
pub(crate) struct Payment {
    key: Arc<Accepted>,
    token: Token,
}

impl Payment {
    /// Returns the maximum number of look-ups that the token pays for.
    pub fn queries(&self) -> Option<u64> {
        self.key.queries
    }
}

impl Content {
    /// Reads a file. A key that `before` has keeps its spent tokens, and a user what is left of the
    /// allowance.
    fn read(
        path: &Path,
        before: Option<&Self>,
        outcomes: &IntCounterVec,
    ) -> Result<Self, PrivateTokensError> {
        let Rules { challenge, accepts, spent: folder, most_spent, keys: rules, signers, users } =
            read(path)?;
        let kept = |path: &Path| {
            let path = path.to_owned();
            move |source| PrivateTokensError::Spent { path, source }
        };
        std::fs::create_dir_all(&folder).map_err(kept(&folder))?;
        let mut keys = BTreeMap::new();
        for Rule { tier, key, queries } in rules {
            let path = folder.join(blake3::Hash::from_bytes(*key.id()).to_hex().as_str());
            let spent = match before.and_then(|before| before.keys.get(key.id())) {
                Some(known) if known.spent.path() != path => {
                    let cause = "the key's spent tokens are in another folder, which cannot change while the server runs; restart it";
                    return Err(kept(&path)(io::Error::other(cause)));
                }
                Some(known) => Arc::clone(&known.spent),
                None => Arc::new(Spent::open(&path).map_err(kept(&path))?),
            };
            keys.insert(*key.id(), Arc::new(Accepted { tier, key, queries, most_spent, spent }));
        }
        let asks = format!("PrivateToken challenge=\"{}\"", URL_SAFE.encode(challenge.as_bytes()));
        let former = before.and_then(|before| before.issuer.as_deref());
        let issuer = (!signers.is_empty()).then(|| Issuer::new(signers, users, former, outcomes.clone()));
        Ok(Self {
            keys,
            challenge: (accepts == Accepts::Issuer).then(|| challenge.digest()),
            asks: HeaderValue::try_from(asks).expect("Base64 is ASCII"),
            issuer: issuer.map(Arc::new),
        })
    }

    fn valid(&self, headers: &HeaderMap) -> Result<Payment, Unacceptable> {
        let value = headers.get(AUTHORIZATION).ok_or(Unacceptable::Missing)?;
        let token = Token::from_authorization(value.as_bytes())?;
        let key = self.keys.get(token.key_id()).ok_or(Unacceptable::Key)?;
        if self.challenge.is_some_and(|challenge| challenge != *token.challenge_digest()) {
            return Err(Unacceptable::Challenge);
        }
        if !key.key.verifies(&token) {
            return Err(Unacceptable::Signature);
        }
        if key.spent.contains(token.nonce()) {
            return Err(SpendError::Twice.into());
        }
        Ok(Payment { key: Arc::clone(key), token })
    }
}

impl PrivateTokens {
    /// Reads the file, and the spent tokens of its keys. If the file has private keys, this server
    /// is an issuer.
    ///
    /// # Errors
    /// [`PrivateTokensError`].
    pub fn open(path: &Path, outcomes: IntCounterVec) -> Result<Self, PrivateTokensError> {
        let content = Content::read(path, None, &outcomes)?;
        Ok(Self { path: path.into(), content: RwLock::new(Arc::new(content)), outcomes })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file and the keys that it names again. If one is wrong, everything stays
    /// unchanged.
    ///
    /// # Errors
    /// Those of [`PrivateTokens::open`], and [`PrivateTokensError::Spent`] if the folder of the
    /// spent tokens changes.
    pub fn reload(&self) -> Result<(), PrivateTokensError> {
        let content = Content::read(&self.path, Some(&self.content()), &self.outcomes)?;
        *self.content.write() = Arc::new(content);
        Ok(())
    }

    fn content(&self) -> Arc<Content> {
        Arc::clone(&self.content.read())
    }

    /// Returns the issuer, if the file has private keys.
    pub fn issuer(&self) -> Option<Arc<Issuer>> {
        self.content().issuer.clone()
    }

    /// Returns the valid token of a request.
    pub fn verify(&self, headers: &HeaderMap) -> Result<Payment, AppleRefused> {
        self.content().valid(headers).map_err(|reason| self.refusal(&reason))
    }

    /// Spends a token.
    pub fn spend(&self, payment: &Payment) -> Result<(), AppleRefused> {
        let spent = payment
            .key
            .spent
            .spend(payment.token.nonce(), payment.key.most_spent)
            .map_err(Unacceptable::from);
        if let Err(reason @ Unacceptable::Unspent(SpendError::Full | SpendError::Write(_))) = &spent {
            let cause = match reason {
                Unacceptable::Unspent(SpendError::Write(error)) => error.to_string(),
                _ => "most_spent tokens are there: replace the key, or raise most_spent".into(),
            };
            tracing::error!(tier = payment.key.tier, cause, "private tokens are refused");
        }
        spent.map_err(|reason| self.refusal(&reason))?;
        self.outcomes.with_label_values(&["spent"]).inc();
        Ok(())
    }

    fn refusal(&self, reason: &Unacceptable) -> AppleRefused {
        self.outcomes.with_label_values(&[reason.name()]).inc();
        match reason {
            Unacceptable::Unspent(SpendError::Full | SpendError::Write(_)) => {
                AppleRefused::new(StatusCode::SERVICE_UNAVAILABLE, reason.to_string())
            }
            _ => AppleRefused::unauthorized(reason.to_string(), self.content().asks.clone()),
        }
    }

    /// Makes sure that all spent tokens survive a loss of power.
    pub fn sync(&self) {
        for accepted in self.content().keys.values() {
            if let Err(error) = accepted.spent.sync() {
                tracing::error!(tier = accepted.tier, %error, "the spent tokens cannot be written");
            }
        }
    }

    /// Returns the number of spent tokens of each tier.
    pub fn spent(&self) -> BTreeMap<String, usize> {
        let mut tiers = BTreeMap::new();
        for accepted in self.content().keys.values() {
            *tiers.entry(accepted.tier.clone()).or_default() += accepted.spent.len();
        }
        tiers
    }
}
