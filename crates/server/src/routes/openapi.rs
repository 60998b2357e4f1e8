//! The description of the endpoints in the form OpenAPI 3.1, made from the table that the routers are made from.

use serde_json::{Map, Value, json};
use spirea_wire::Code;

use super::endpoint::Endpoint;
use crate::refused::Refused;

/// What may refuse a request with a token before its endpoint sees it.
const AT_THE_GATE: [Code; 4] = [Code::Unauthenticated, Code::Forbidden, Code::Overloaded, Code::Malformed];

/// The document of some endpoints.
pub(super) fn document(title: &str, endpoints: &[Endpoint]) -> Value {
    let mut paths = Map::new();
    for endpoint in endpoints {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.as_str().to_ascii_lowercase()] = operation(endpoint);
    }
    let mut codes: Vec<i32> = endpoints.iter().flat_map(causes).map(|code| code as i32).collect();
    codes.sort_unstable();
    codes.dedup();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "Messages are those of proto/spirea/v1. Every response with a status of 400 or above has a message spirea.v1.Error with a code, the cause and a remedy.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer", "description": "Where the server has a file of tokens." } },
            "schemas": {
                "Error": {
                    "type": "string",
                    "format": "binary",
                    "description": "A message spirea.v1.Error.",
                    "x-codes": codes.into_iter().filter_map(|code| Code::try_from(code).ok()).map(|code| code.as_str_name()).collect::<Vec<_>>(),
                },
            },
        },
    })
}

/// Why an endpoint may refuse.
fn causes(endpoint: &Endpoint) -> impl Iterator<Item = Code> {
    let gate = endpoint.scope.into_iter().flat_map(|_| AT_THE_GATE);
    // A defect may be anywhere.
    endpoint.causes.iter().copied().chain(gate).chain([Code::Internal])
}

fn operation(endpoint: &Endpoint) -> Value {
    let mut responses = Map::new();
    for success in &endpoint.successes {
        let mut response = json!({ "description": success.text });
        if !success.content_type.is_empty() {
            response["content"] = json!({ success.content_type: {} });
        }
        responses.insert(success.status.to_string(), response);
    }
    let mut causes: Vec<(u16, Code)> =
        causes(endpoint).map(|code| (Refused::status(code).as_u16(), code)).collect();
    causes.sort_by_key(|&(status, code)| (status, code as i32));
    causes.dedup();
    for same in causes.chunk_by(|a, b| a.0 == b.0) {
        let names: Vec<&str> = same.iter().map(|(_, code)| code.as_str_name()).collect();
        let mut response = json!({
            "description": names.join(", "),
            "content": { spirea_wire::CONTENT_TYPE: { "schema": { "$ref": "#/components/schemas/Error" } } },
        });
        if same.iter().any(|(status, _)| matches!(status, 429 | 503)) {
            response["headers"] =
                json!({ "Retry-After": { "description": "Seconds.", "schema": { "type": "integer" } } });
        }
        responses.entry(same[0].0.to_string()).or_insert(response);
    }
    let in_path = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let others = endpoint.parameters.iter().map(|(name, place, text)| {
        json!({ "name": name, "in": place, "description": text, "schema": { "type": "string" } })
    });
    let mut operation = json!({
        "summary": endpoint.summary,
        "parameters": in_path.chain(others).collect::<Vec<_>>(),
        "responses": responses,
    });
    if let Some(scope) = endpoint.scope {
        operation["security"] = json!([{ "token": [scope.name()] }]);
    }
    if let Some(content_type) = endpoint.body {
        operation["requestBody"] = json!({ "required": true, "content": { content_type: {} } });
    }
    operation
}
