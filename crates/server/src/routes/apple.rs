//! `POST /config`, `/key` and `/queries`, for Apple's clients (`docs/wire/apple.md`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::USER_AGENT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use prost::Message;
use spirea_apple::messages::{
    Config, ConfigRequest, ConfigResponse, EvaluationKeys, Inbound, KeyStatus, MAX_INBOUND_BYTES, Requests,
    Response as Answer, Responses,
};
use spirea_apple::{AppleError, EvaluationKey};
use spirea_engine::KeyOwner;

use super::response::protobuf;
use crate::access::Caller;
use crate::app::App;
use crate::apple::{AppleRefused, KeyName, Payment, UseCases};
use crate::body::{Received, Upload};
use crate::held::Held;
use crate::memory::ResponseMemory;
use crate::refused::Refused;

/// Header with the name that a client gave itself.
pub(super) const USER_IDENTIFIER: &str = "User-Identifier";
/// Maximum length of that name, in bytes.
const MAX_USER_BYTES: usize = 256;
/// Maximum length of a request for configurations, in bytes.
const MAX_CONFIG_BYTES: u64 = 256 << 10;

/// A request that was admitted.
struct Admitted {
    /// Name that the client gave itself.
    user: Vec<u8>,
    caller: Caller,
    body: Received,
    /// Maximum number of look-ups that the request has paid for; `None` if it needs no token, or if
    /// its token has no limit.
    queries: Option<u64>,
}

/// Admission and body of a request that came through the gateway, in the request's extensions. The
/// encapsulating request was admitted, and memory for its body is reserved.
#[derive(Clone)]
pub(super) struct Enclosed {
    /// Sender of the encapsulating request: the relay.
    pub caller: Caller,
    pub body: Received,
}

/// Admits a request without a token of this server, and responds as `respond` does.
pub(super) async fn admit_anyone(
    app: &Arc<App>,
    request: Request,
    respond: impl AsyncFnOnce(Request, Caller) -> Result<Response, AppleRefused>,
) -> Response {
    match app.gate.admit_anyone(&request) {
        Ok((caller, permit)) => Held::attach(respond(request, caller).await.into_response(), permit),
        Err(refused) => AppleRefused::from(refused).into_response(),
    }
}

/// Admits a request, reads its body of at most `limit` bytes and responds as `respond` does.
async fn admitted<F: Future<Output = Result<Response, AppleRefused>>>(
    app: &Arc<App>,
    mut request: Request,
    limit: u64,
    respond: impl FnOnce(Admitted) -> F,
) -> Response {
    if let Some(Enclosed { caller, body }) = request.extensions_mut().remove() {
        let fits = body.bytes.len() as u64 <= limit;
        let body = async { if fits { Ok(body) } else { Err(Refused::too_large(limit)) } };
        return paid(app, request.headers(), caller, body, respond).await.into_response();
    }
    admit_anyone(app, request, async |request, caller| {
        let headers = request.headers().clone();
        let body = app.receive("", Upload::of_any_type(request), limit, &caller);
        paid(app, &headers, caller.clone(), body, respond).await
    })
    .await
}

/// Checks a request's headers, receives its body, spends its token and responds as `respond` does.
async fn paid<F: Future<Output = Result<Response, AppleRefused>>>(
    app: &Arc<App>,
    headers: &HeaderMap,
    caller: Caller,
    body: impl Future<Output = Result<Received, Refused>>,
    respond: impl FnOnce(Admitted) -> F,
) -> Result<Response, AppleRefused> {
    let user = user(headers)?;
    let payment = match &app.apple.tokens {
        Some(tokens) => Some(tokens.verify(headers)?),
        None => None,
    };
    let body = body.await?;
    let queries = payment.as_ref().and_then(Payment::queries);
    // The token is spent only now, so a body that does not arrive costs no token.
    if let Some(payment) = payment {
        spend(app, payment).await?;
    }
    respond(Admitted { user, caller, body, queries }).await
}

/// Marks a token as spent. This writes to disk, so it runs on the blocking pool.
async fn spend(app: &Arc<App>, payment: Payment) -> Result<(), AppleRefused> {
    let app = Arc::clone(app);
    let spend = move || app.apple.tokens.as_ref().map_or(Ok(()), |tokens| tokens.spend(&payment));
    tokio::task::spawn_blocking(spend)
        .await
        .unwrap_or_else(|_| Err(Refused::internal("the request was aborted by a defect").into()))
}

/// Returns the name that a client gave itself.
fn user(headers: &HeaderMap) -> Result<Vec<u8>, AppleRefused> {
    if !headers.contains_key(USER_AGENT) {
        return Err(AppleRefused::bad_request("the header User-Agent is missing"));
    }
    let user = headers.get(USER_IDENTIFIER).map(|user| user.as_bytes());
    let user = user.filter(|user| (1..=MAX_USER_BYTES).contains(&user.len()));
    user.map(<[u8]>::to_vec).ok_or_else(|| {
        let message = format!("the header {USER_IDENTIFIER} is missing or above {MAX_USER_BYTES} bytes");
        AppleRefused::bad_request(message)
    })
}

/// Returns the use cases; none if the databases come from elsewhere.
fn use_cases(app: &App) -> Result<&UseCases, AppleRefused> {
    let library = app.library.as_ref();
    let missing =
        || AppleRefused::new(StatusCode::NOT_FOUND, "this server has no tables for Apple's clients");
    library.map(|library| library.apple()).ok_or_else(missing)
}

pub(super) async fn config(State(app): State<Arc<App>>, request: Request) -> Response {
    admitted(&app, request, MAX_CONFIG_BYTES, async |Admitted { user, body, .. }| {
        let ConfigRequest { usecases, existing_config_ids } = ConfigRequest::from_bytes(body.bytes.clone())?;
        if !existing_config_ids.is_empty() && existing_config_ids.len() != usecases.len() {
            let message = "existing_config_ids are not as many as usecases";
            return Err(AppleRefused::bad_request(message));
        }
        let known = use_cases(&app)?;
        let names = if usecases.is_empty() { known.names() } else { usecases };
        let (mut configs, mut statuses) = (BTreeMap::new(), BTreeMap::new());
        for (i, name) in names.into_iter().enumerate() {
            let versions = known.versions(&name);
            let versions =
                versions.map_err(|absent| AppleRefused::absent(&name, absent, StatusCode::NOT_FOUND))?;
            let newest = &versions[0];
            let config = match existing_config_ids.get(i).is_some_and(|id| id == newest.config_id()) {
                true => Config { reuse_existing_config: true, ..Config::default() },
                false => Config {
                    pir_config: Some(newest.config().clone()),
                    config_id: newest.config_id().clone(),
                    reuse_existing_config: false,
                },
            };
            configs.insert(name, config);
            let key_config = newest.key_config();
            let identifier = key_config.hash();
            let stored = app.apple.keys.get(&KeyName::new(&user, &identifier), SystemTime::now());
            let timestamp = stored.map_or(0, |(_, timestamp)| timestamp);
            statuses.insert(identifier, KeyStatus { timestamp, key_config: Some(key_config.message()) });
        }
        let key_info = statuses.into_values().collect();
        Ok(protobuf(ConfigResponse { configs, key_info }.encode_to_vec()))
    })
    .await
}

pub(super) async fn key(State(app): State<Arc<App>>, request: Request) -> Response {
    let state = Arc::clone(&app);
    admitted(&app, request, MAX_INBOUND_BYTES as u64, async |Admitted { user, caller, body, .. }| {
        // Behind a relay all clients have one address, but each has paid for its keys.
        let owner = match &app.apple.tokens {
            Some(_) => Some(KeyOwner::new(&user)),
            None => caller.key_owner(),
        };
        computed(&state.clone(), move || {
            let EvaluationKeys { keys } = EvaluationKeys::from_bytes(body.bytes.clone())?;
            let known = use_cases(&state)?;
            let mut parsed = Vec::with_capacity(keys.len());
            for upload in &keys {
                let missing = || AppleRefused::bad_request("an evaluation key lacks its metadata or itself");
                let (metadata, key) =
                    upload.metadata.as_ref().zip(upload.evaluation_key.as_ref()).ok_or_else(missing)?;
                let config = known.key_config(&metadata.identifier).ok_or_else(|| {
                    AppleRefused::bad_request("no use case asks for evaluation keys with this identifier")
                })?;
                let name = KeyName::new(&user, &metadata.identifier);
                parsed.push((name, EvaluationKey::parse(&config, key)?, metadata.timestamp));
            }
            for (name, key, timestamp) in parsed {
                if !state.apple.keys.insert(name, Arc::new(key), timestamp, owner, SystemTime::now()) {
                    return Err(Refused::short_of_memory().into());
                }
            }
            Ok(().into_response())
        })
        .await
    })
    .await
}

pub(super) async fn queries(
    State(app): State<Arc<App>>,
    Extension(memory): Extension<ResponseMemory>,
    request: Request,
) -> Response {
    let state = Arc::clone(&app);
    admitted(&app, request, MAX_INBOUND_BYTES as u64, async |Admitted { user, caller, body, queries }| {
        let Requests { requests } = Requests::from_bytes(body.bytes.clone())?;
        let asked = requests.len() as u64;
        match &state.apple.tokens {
            None => state.apple.quota.take(&caller.network(), asked, Instant::now())?,
            Some(_) if queries.is_some_and(|paid| asked > paid) => {
                return Err(AppleRefused::bad_request(
                    "the request has more look-ups than its token pays for",
                ));
            }
            Some(_) => (),
        }
        let known = use_cases(&state)?;
        let mut asked = Vec::with_capacity(requests.len());
        let mut bytes = 0;
        for request in requests {
            let name = &request.usecase;
            let versions = known.versions(name);
            let versions =
                versions.map_err(|absent| AppleRefused::absent(name, absent, StatusCode::BAD_REQUEST))?;
            let pir = request.pir_request.ok_or(AppleError::Unsupported("a request without pir_request"))?;
            // A named shard is refused as unsupported, whatever its configuration.
            let version = match pir.shard_id {
                Some(_) => versions.first(),
                None => versions.iter().find(|version| pir.configuration_hash == version.config_id()),
            };
            let version = Arc::clone(version.ok_or(AppleError::UnknownConfiguration)?);
            bytes += version.response_bytes() as u64;
            let name = KeyName::new(&user, &version.key_config().hash());
            let key = state.apple.keys.get(&name, SystemTime::now()).map(|(key, _)| key);
            asked.push((version, pir, key));
        }
        // The response's memory is reserved before the computation: without memory, the response
        // could not be sent.
        let reserved = memory.reserve(bytes).ok_or_else(Refused::short_of_connection_memory)?;
        let answer = move || {
            // The messages share the body's memory, which stays reserved until they are answered.
            let _body = body;
            let responses = asked.iter().map(|(version, request, key)| {
                Ok(Answer { pir_response: Some(version.answer(request, key.as_deref())?) })
            });
            let responses = responses.collect::<Result<_, AppleError>>()?;
            Ok(protobuf(Responses { responses }.encode_to_vec()))
        };
        let mut response = computed(&state, answer).await?;
        response.extensions_mut().insert(reserved);
        Ok(response)
    })
    .await
}

/// Runs a computation on the blocking pool when one of the permits for computations is free.
pub(super) async fn computed(
    app: &App,
    work: impl FnOnce() -> Result<Response, AppleRefused> + Send + 'static,
) -> Result<Response, AppleRefused> {
    let permit = Arc::clone(&app.apple.computing).acquire_owned().await;
    let work = move || {
        let _permit = permit;
        work()
    };
    // The panic hook has written the panic's message to standard error.
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(Refused::internal("the request was aborted by a defect").into()))
}
