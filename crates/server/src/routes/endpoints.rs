//! The endpoints of both ports: the single table from which the routers and the OpenAPI documents
//! are made.

use std::sync::{Arc, OnceLock};

use axum::http::Method;
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use serde_json::Value;
use spirea_wire::Code;

use super::endpoint::{Endpoint, HASH, Header, Parameter, Success};
use super::openapi::{self, FORM};
use super::publish::{CHANGES_TYPE, SNAPSHOT_TYPE};
use super::response::json_text;
use super::{admin, apple, control, follow, gateway, hint, issuer, keys, page, publish, query};
use crate::accept::JSON;
use crate::access::{self, Scope};
use crate::app::App;
use crate::apple::ISSUE;
use crate::problem::PROBLEM;

/// Content type of files.
const BYTES: &str = "application/octet-stream";

const ETAG: Header = ("ETag", "^\"[0-9a-f]{64}\"$", "The hash of what is here, in quotes.");
const ASK_AGAIN: Header =
    ("Cache-Control", "^no-cache$", "A copy is good for as long as the entity tag is the same.");
const RANGES: Header = ("Accept-Ranges", "^bytes$", "Ranges may be asked for.");
const RANGE: Header = ("Content-Range", "^bytes [0-9]+-[0-9]+/[0-9]+$", "Which bytes, and of how many.");

const ANSWERING: Header = (
    "Spirea-Answering",
    "^[0-9a-f]{64}$",
    "The version that answers; another than the record's while that one waits for followers.",
);

const IF_NONE_MATCH: Parameter = Parameter {
    name: "If-None-Match",
    place: "header",
    pattern: "",
    text: "The entity tag of what the client has.",
};
const SHRINKING: Parameter = Parameter {
    name: "shrinking",
    place: "query",
    pattern: "^(allow|refuse)$",
    text: "What becomes of a snapshot with less than half of the current version's values; without, it is refused.",
};
const AFFINITY: Parameter = Parameter {
    name: "Spirea-Affinity",
    place: "header",
    pattern: "",
    text: "Digits derived from the hash of the client's keys, by which a balancer may choose the replica; servers ignore them.",
};
const FOLLOWER: Parameter = Parameter {
    name: "follower",
    place: "query",
    pattern: "^[0-9a-fA-F]{32}$",
    text: "Digits that a follower draws at random when it starts.",
};
const RANGE_OF: Parameter = Parameter {
    name: "Range",
    place: "header",
    pattern: "",
    text: "One range of bytes; the whole comes where it has another form.",
};
const IF_RANGE: Parameter = Parameter {
    name: "If-Range",
    place: "header",
    pattern: "",
    text: "The entity tag of what the client has a part of; the whole comes where it is another.",
};
const HINT: Parameter = Parameter {
    name: "blake3",
    place: "query",
    pattern: HASH,
    text: "The hint's hash; without, that of the newest version's base.",
};

/// Returns a response whose body is not JSON.
const fn ok(content_type: &'static str, text: &'static str) -> Success {
    Success { status: 200, content_type, schema: "", headers: &[], text }
}

const fn ok_json(schema: &'static str, text: &'static str) -> Success {
    Success { schema, ..ok(JSON, text) }
}

const NOT_MODIFIED: Success =
    Success { status: 304, ..ok("", "what the client has, by If-None-Match") }.with(&[ETAG, ASK_AGAIN]);

const USER_IDENTIFIER: Parameter = Parameter {
    name: apple::USER_IDENTIFIER,
    place: "header",
    pattern: "",
    text: "A name that the client chose for itself, under which its evaluation keys are stored; it proves nothing.",
};
/// Refusals of Apple's clients: a status with its meaning.
const APPLE_REFUSALS: [(u16, &str); 10] = [
    (
        400,
        "a malformed request, no User-Identifier or User-Agent, an unknown evaluation key, shard or use case of a query",
    ),
    (401, "no usable private token, if the server asks for one: WWW-Authenticate has the challenge"),
    (404, "an unknown use case of a request for configurations, or no tables for Apple's clients"),
    (408, "the body came too slowly"),
    (410, "an unknown configuration_hash: the client fetches the configuration again"),
    (413, "the body is too long"),
    (429, "the quota of the address is used up, or too many requests are being served"),
    (500, "a defect"),
    (501, "a part of the protocol that this server does not have"),
    (503, "the use case is being loaded, or the spent private tokens cannot be kept"),
];

/// Refusals of a database that does not answer.
const NO_DATABASE: [Code; 3] = [Code::UnknownDatabase, Code::Loading, Code::Failed];
/// Refusals of a wrong body.
const WRONG_BODY: [Code; 6] = [
    Code::Malformed,
    Code::WrongFormat,
    Code::WrongContentType,
    Code::TooLarge,
    Code::SlowBody,
    Code::Overloaded,
];

/// Returns the endpoints of probes and monitors, on every port and without a token.
fn open_endpoints() -> Vec<Endpoint> {
    let alive = || vec![ok("text/plain", "it runs")];
    let ready = vec![
        ok_json("Readiness", "they do"),
        Success {
            status: 503,
            ..ok_json("Readiness", "some do not, or the server is leaving; with the causes")
        },
    ];
    let metrics = vec![ok("text/plain", "in the text format of Prometheus")];
    vec![
        Endpoint::open("/healthz", "Whether the process runs.", alive(), control::alive),
        Endpoint::open("/livez", "Whether the process runs.", alive(), control::alive),
        Endpoint::open("/readyz", "Whether all databases answer.", ready, control::ready),
        Endpoint::open("/metrics", "Metrics.", metrics, control::metrics),
    ]
}

/// Returns the endpoint of a port's OpenAPI document. The document is made only once: it is large,
/// and this endpoint needs no token.
fn described(document: fn() -> Value) -> Endpoint {
    let made = Arc::new(OnceLock::new());
    let handler = move || async move { json_text(made_once(&made, document)) };
    Endpoint::open("/openapi.json", "This document.", vec![ok_json("Document", "OpenAPI 3.1")], handler)
}

fn made_once(made: &OnceLock<Bytes>, document: fn() -> Value) -> Bytes {
    made.get_or_init(|| document().to_string().into()).clone()
}

fn data_document() -> Value {
    openapi::document("Spirea", &data_endpoints())
}

fn admin_document() -> Value {
    openapi::document("Spirea: administration", &admin_endpoints())
}

/// Returns an answer, and the refusals of the endpoints for Apple's clients by status.
fn or_refused(answer: Success, refusals: &[(u16, &'static str)]) -> Vec<Success> {
    let refusal = |&(status, text)| Success { status, ..ok_json("AppleError", text) };
    std::iter::once(answer).chain(refusals.iter().map(refusal)).collect()
}

/// Returns an endpoint for Apple's clients.
fn for_apple(
    path: &'static str,
    summary: &'static str,
    text: &'static str,
    handler: MethodRouter<Arc<App>>,
) -> Endpoint {
    let answer = if text.is_empty() { ok("", "stored") } else { ok(spirea_wire::CONTENT_TYPE, text) };
    Endpoint {
        method: Method::POST,
        path,
        scope: None,
        summary,
        parameters: &[USER_IDENTIFIER],
        body: Some(spirea_wire::CONTENT_TYPE),
        successes: or_refused(answer, &APPLE_REFUSALS),
        causes: Vec::new(),
        handler,
    }
}

/// Returns the endpoints for clients.
pub(super) fn data_endpoints() -> Vec<Endpoint> {
    const PROTOBUF: &str = spirea_wire::CONTENT_TYPE;
    let mut endpoints = open_endpoints();
    endpoints.extend([
        described(data_document),
        Endpoint::open(
            "/",
            "A page that tells a browser where it is.",
            vec![ok("text/html", "the page")],
            page::welcome,
        ),
        Endpoint {
            method: Method::GET,
            path: "/v1/databases",
            scope: Some(Scope::Query),
            summary: "The databases.",
            parameters: &[],
            body: None,
            successes: vec![
                ok_json("DatabaseList", "the databases with their states and versions, or a message spirea.v1.DatabaseList where Accept prefers that").with(&[FORM]),
                ok(PROTOBUF, ""),
            ],
            causes: Vec::new(),
            handler: get(control::databases),
        },
        Endpoint {
            method: Method::GET,
            path: "/v1/databases/{name}/config",
            scope: Some(Scope::Query),
            summary: "What a client must know before it can ask. Its entity tag is the version.",
            parameters: &[
                Parameter {
                    name: "version",
                    place: "query",
                    pattern: HASH,
                    text: "The version; without, the newest.",
                },
                IF_NONE_MATCH,
            ],
            body: None,
            successes: vec![
                ok(PROTOBUF, "a message spirea.v1.DatabaseConfig").with(&[ETAG, ASK_AGAIN]),
                NOT_MODIFIED,
            ],
            causes: [&NO_DATABASE[..], &[Code::StaleVersion, Code::Malformed]].concat(),
            handler: get(control::config),
        },
        Endpoint {
            method: Method::POST,
            path: "/v1/databases/{name}/keys",
            scope: Some(Scope::Query),
            summary: "Registers evaluation keys (spirea.v1.KeysRequest), for queries to name by their hash.",
            parameters: &[AFFINITY],
            body: Some(PROTOBUF),
            successes: vec![ok(PROTOBUF, "a message spirea.v1.KeysResponse")],
            causes: [&NO_DATABASE[..], &WRONG_BODY, &[Code::NoKeysNeeded, Code::StaleVersion, Code::UnknownKeys]].concat(),
            handler: post(keys::keys),
        },
        Endpoint {
            method: Method::GET,
            path: "/v1/databases/{name}/hint",
            scope: Some(Scope::Query),
            summary: "A hint, whole or in ranges. Its entity tag is its hash.",
            parameters: &[
                HINT,
                IF_NONE_MATCH,
                RANGE_OF,
                IF_RANGE,
            ],
            body: None,
            successes: vec![
                ok(BYTES, "the hint").with(&[ETAG, ASK_AGAIN, RANGES]),
                Success { status: 206, ..ok(BYTES, "a range of it") }.with(&[ETAG, ASK_AGAIN, RANGES, RANGE]),
                NOT_MODIFIED,
            ],
            causes: [&NO_DATABASE[..], &[Code::UnknownHint, Code::WrongRange, Code::Malformed]].concat(),
            handler: get(hint::hint),
        },
        Endpoint {
            method: Method::GET,
            path: "/v1/databases/{name}/hint/rows",
            scope: Some(Scope::Query),
            summary: "Hashes of a hint's rows, by which a client that has another version's finds what changed.",
            parameters: &[HINT],
            body: None,
            successes: vec![
                ok(BYTES, "16 bytes of BLAKE3 for each row of the hint")
                    .with(&[ASK_AGAIN]),
            ],
            causes: [&NO_DATABASE[..], &[Code::UnknownHint, Code::Malformed]].concat(),
            handler: get(hint::rows),
        },
        Endpoint {
            method: Method::POST,
            path: "/v1/databases/{name}/query",
            scope: Some(Scope::Query),
            summary: "Answers queries, and first registers the keys that come with them (spirea.v1.QueryRequest).",
            parameters: &[
                Parameter {
                    name: access::REQUEST_ID,
                    place: "header",
                    pattern: "^[0-9a-fA-F]{32}$",
                    text: "Digits drawn at random for a request and repeated by its retries, which cost no quota.",
                },
                AFFINITY,
            ],
            body: Some(PROTOBUF),
            successes: vec![ok(PROTOBUF, "a message spirea.v1.QueryResponse")],
            causes: [
                    &NO_DATABASE[..],
                    &WRONG_BODY,
                    &[Code::StaleVersion, Code::UnknownKeys, Code::QuotaExceeded, Code::Stopping],
                ].concat(),
            handler: post(query::query),
        },
    ]);
    endpoints.extend(apple_endpoints());
    endpoints.extend(issuer_endpoints());
    endpoints.extend(gateway_endpoints());
    endpoints
}

/// Returns the endpoints for Apple's clients, to which the gateway also forwards requests.
pub(super) fn apple_endpoints() -> [Endpoint; 3] {
    [
        for_apple(
            "/config",
            "Configurations of use cases for Apple's clients (ConfigRequest), and the evaluation keys that they need.",
            "a message ConfigResponse",
            post(apple::config),
        ),
        for_apple(
            "/key",
            "Stores evaluation keys of an Apple client (EvaluationKeys).",
            "",
            post(apple::key),
        ),
        for_apple(
            "/queries",
            "Look-ups of an Apple client (Requests).",
            "a message Responses",
            post(apple::queries),
        ),
    ]
}

/// Returns the endpoints of the OHTTP gateway. RFC 9540 defines their path.
fn gateway_endpoints() -> [Endpoint; 2] {
    const PATH: &str = "/.well-known/ohttp-gateway";
    const NONE: (u16, &str) = (404, "this server is no OHTTP gateway");
    const BUSY: (u16, &str) = (429, "too many requests are being served");
    const REFUSALS: [(u16, &str); 7] = [
        NONE,
        (408, "the body came too slowly"),
        (413, "the body is too long"),
        (415, "the body is no encapsulated request"),
        BUSY,
        (500, "a defect"),
        (503, "too little memory is left"),
    ];
    let keys = Endpoint::open(
        PATH,
        "The key configurations of the OHTTP gateway for Apple's clients (RFC 9458, RFC 9540).",
        or_refused(ok(gateway::KEYS, "the key configurations"), &[NONE, BUSY]),
        gateway::keys,
    );
    let unopened = Success {
        status: 400,
        ..ok(
            PROBLEM,
            "the encapsulation cannot be removed, as problem details (RFC 9457); of type ohttp-key, if other keys help",
        )
    };
    let mut successes =
        or_refused(ok(gateway::RESPONSE, "an encapsulated response, whatever its status"), &REFUSALS);
    successes.push(unopened);
    let open = Endpoint {
        method: Method::POST,
        body: Some(gateway::REQUEST),
        handler: post(gateway::open),
        ..Endpoint::open(
            PATH,
            "An encapsulated request to /config, /key or /queries (RFC 9458), without its client's address.",
            successes,
            gateway::keys,
        )
    };
    [keys, open]
}

/// Returns the endpoints of the issuer of private tokens.
fn issuer_endpoints() -> [Endpoint; 3] {
    const NONE: (u16, &str) = (404, "this server issues no private tokens");
    const BUSY: (u16, &str) = (429, "the user's allowance is used up, or too many requests are being served");
    const UNKNOWN: (u16, &str) = (401, "no user's token, or an unknown one");
    const ISSUE_REFUSALS: [(u16, &str); 6] = [
        UNKNOWN,
        NONE,
        (408, "the body came too slowly"),
        (413, "the body is too long"),
        (422, "no request for a token of the user's key"),
        BUSY,
    ];
    [
        Endpoint::open(
            "/.well-known/private-token-issuer-directory",
            "The issuer's public keys (RFC 9578).",
            or_refused(ok(issuer::DIRECTORY, "the directory, as JSON"), &[NONE, BUSY]),
            issuer::directory,
        ),
        Endpoint::open(
            "/token-key-for-user-token",
            "The public key that signs a user's tokens.",
            or_refused(ok("application/octet-stream", "SubjectPublicKeyInfo in DER"), &[UNKNOWN, NONE, BUSY]),
            issuer::key,
        ),
        Endpoint {
            method: Method::POST,
            body: Some(issuer::REQUEST),
            handler: post(issuer::issue),
            ..Endpoint::open(
                ISSUE,
                "A private token for a user: signs a TokenRequest (RFC 9578).",
                or_refused(ok(issuer::RESPONSE, "a TokenResponse"), &ISSUE_REFUSALS),
                issuer::issue,
            )
        },
    ]
}

/// Returns an endpoint that makes a version current and responds with that version.
fn publication(
    path: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
    body: Option<&'static str>,
    handler: MethodRouter<Arc<App>>,
) -> Endpoint {
    let mut causes =
        vec![Code::UnknownDatabase, Code::NotPublishable, Code::Malformed, Code::Busy, Code::Internal];
    causes.extend(body.map(|_| Code::WrongContentType));
    Endpoint {
        method: Method::POST,
        path,
        scope: Some(Scope::Publish),
        summary,
        parameters,
        body,
        successes: vec![ok_json("Version", "the version, with its sequence number and changes")],
        causes,
        handler,
    }
}

/// Returns the endpoints for operators and publishers.
pub(super) fn admin_endpoints() -> Vec<Endpoint> {
    let mut endpoints = open_endpoints();
    let file = |content_type, text| vec![ok(content_type, text)];
    endpoints.extend([
        described(admin_document),
        Endpoint::open("/", "A page for operators.", file("text/html", "the page"), page::index),
        Endpoint::open("/page.js", "Its script.", file("text/javascript", "the script"), page::script),
        Endpoint::open("/page.css", "Its style.", file("text/css", "the style"), page::style),
        Endpoint {
            method: Method::GET,
            path: "/v1/admin/databases",
            scope: Some(Scope::Admin),
            summary: "The databases with their versions and states.",
            parameters: &[],
            body: None,
            successes: vec![ok_json("DatabaseList", "the databases, and why any failed")],
            causes: Vec::new(),
            handler: get(admin::databases),
        },
        Endpoint {
            method: Method::GET,
            path: "/v1/admin/status",
            scope: Some(Scope::Admin),
            summary: "Load, keys, connections and uptime.",
            parameters: &[],
            body: None,
            successes: vec![ok_json("Status", "how the server does")],
            causes: Vec::new(),
            handler: get(admin::status),
        },
        Endpoint {
            method: Method::POST,
            path: "/v1/admin/reload",
            scope: Some(Scope::Publish),
            summary: "Reads the folders of snapshots again and adopts those that are new. The response comes when they answer.",
            parameters: &[SHRINKING],
            body: None,
            successes: vec![ok_json("Reload", "the databases that are served from snapshots' folders, with the versions that answer")],
            causes: vec![Code::UnknownDatabase, Code::NotPublishable, Code::Malformed, Code::Internal],
            handler: post(publish::reload),
        },
        Endpoint {
            method: Method::GET,
            path: "/v1/admin/databases/{name}/versions",
            scope: Some(Scope::Publish),
            summary: "The versions that are kept, newest first.",
            parameters: &[],
            body: None,
            successes: vec![ok_json("Versions", "versions with their sequence numbers and changes, and the table")],
            causes: vec![Code::UnknownDatabase, Code::NotPublishable],
            handler: get(publish::versions),
        },
        Endpoint {
            method: Method::GET,
            path: "/v1/admin/databases/{name}/record",
            scope: Some(Scope::Follow),
            summary: "The record of the current version, for a server that follows this one: the hashes of its base and its delta, its number and its signature.",
            parameters: &[
                FOLLOWER,
                Parameter {
                    name: "has",
                    place: "query",
                    pattern: HASH,
                    text: "The newest version whose files the follower has. A new version waits for its followers (activate_after).",
                },
                IF_NONE_MATCH,
                Parameter {
                    name: "Prefer",
                    place: "header",
                    pattern: "",
                    text: "Seconds for which the server may let the client wait until the entity tag is another one than that of If-None-Match (RFC 7240); at most 20. If the server was ready to wait, the response has the header Preference-Applied.",
                },
            ],
            body: None,
            successes: vec![
                ok_json("Record", "the record's file, byte for byte; its entity tag covers Spirea-Answering too")
                    .with(&[ETAG, ASK_AGAIN, ANSWERING]),
                Success { status: 204, ..ok("", "nothing has been published yet") },
                NOT_MODIFIED.with(&[ETAG, ASK_AGAIN, ANSWERING]),
            ],
            causes: [&NO_DATABASE[..], &[Code::NotPublishable, Code::Malformed]].concat(),
            handler: get(follow::record),
        },
        Endpoint {
            method: Method::GET,
            path: "/v1/admin/databases/{name}/snapshots/{version}/{file}",
            scope: Some(Scope::Follow),
            summary: "A file of a base or a delta that a kept version names: manifest.json, or one that the manifest names. Its entity tag is its hash.",
            parameters: &[FOLLOWER, IF_NONE_MATCH, RANGE_OF, IF_RANGE],
            body: None,
            successes: vec![
                ok(BYTES, "the file").with(&[ETAG, ASK_AGAIN, RANGES]),
                Success { status: 206, ..ok(BYTES, "a range of it") }.with(&[ETAG, ASK_AGAIN, RANGES, RANGE]),
                NOT_MODIFIED,
            ],
            causes: vec![Code::UnknownDatabase, Code::NoSuchEndpoint, Code::NotPublishable, Code::WrongRange, Code::Malformed],
            handler: get(follow::file),
        },
        publication(
            "/v1/admin/databases/{name}/changes",
            "Takes in changes, as lines of JSON: {\"key\": ..., \"value\": ...} or {\"key\": ..., \"deleted\": true}. A first line {\"after\": CURSOR} applies them only behind that cursor, and a last line {\"cursor\": CURSOR} stores one with the version.",
            &[],
            Some(CHANGES_TYPE),
            post(publish::changes),
        ),
        publication(
            "/v1/admin/databases/{name}/snapshot",
            "Takes in a snapshot, as a tar archive of its folder with manifest.json first.",
            &[SHRINKING],
            Some(SNAPSHOT_TYPE),
            post(publish::snapshot),
        ),
        publication(
            "/v1/admin/databases/{name}/rollback",
            "Makes an earlier version answer again.",
            &[Parameter {
                name: "to",
                place: "query",
                pattern: "^[0-9a-fA-F]{1,64}$",
                text: "The version, or its first digits; without, the one before that no roll-back has left.",
            }],
            None,
            post(publish::rollback),
        ),
        publication(
            "/v1/admin/databases/{name}/compact",
            "Makes a new base of the base and its changes.",
            &[],
            None,
            post(publish::compact),
        ),
    ]);
    // The refusal of requests that pages of other origins may have made.
    endpoints.iter_mut().for_each(|endpoint| endpoint.causes.push(Code::Forbidden));
    endpoints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_made_once() {
        let made = OnceLock::new();
        let [first, second] =
            [data_document, || unreachable!("it is there")].map(|make: fn() -> Value| made_once(&made, make));
        assert_eq!(first.as_ptr(), second.as_ptr());
    }
}
