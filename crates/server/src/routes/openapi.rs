//! The OpenAPI 3.1 document of the endpoints, made from the same table as the routers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use spirea_wire::Code;

use super::endpoint::{Endpoint, HASH, Header, Parameter, Success};
use crate::problem::{PROBLEM, PROBLEMS, title};
use crate::refused::{Refused, name};

/// Refusals of an endpoint that needs a token, before its handler is reached.
const AT_THE_GATE: [Code; 4] = [Code::Unauthenticated, Code::Forbidden, Code::Overloaded, Code::Malformed];

const DESCRIPTION: &str = "\
    Messages are those of proto/spirea/v1. HEAD works wherever GET does; OPTIONS, and a method that a path does not have \
    (405), get a header Allow with those that it has. A refusal has a status of 400 or above, a code, the cause and a \
    remedy: as a message spirea.v1.Error, or as application/problem+json (RFC 9457) where Accept prefers JSON or text/html.";

/// Header of a response whose form depends on `Accept`.
pub(super) const FORM: Header = ("Vary", "accept", "The form depends on Accept.");

/// Returns the document of `endpoints`.
pub(super) fn document(heading: &str, endpoints: &[Endpoint]) -> Value {
    let mut paths = Map::new();
    for endpoint in endpoints {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.as_str().to_ascii_lowercase()] = operation(endpoint);
    }
    let schemas: Value = serde_json::from_str(include_str!("schemas.json")).expect("the file is JSON");
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": heading,
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": DESCRIPTION,
        },
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer", "description": "Where the server has a file of tokens." } },
            "schemas": schemas,
            PROBLEMS: problems(),
        },
    })
}

/// Returns every code with its title and status.
fn problems() -> Map<String, Value> {
    let codes = (Code::Malformed as i32..).map_while(|code| Code::try_from(code).ok());
    let kind = |code| json!({ "title": title(code), "status": Refused::status(code).as_u16() });
    codes.map(|code| (name(code).to_owned(), kind(code))).collect()
}

fn operation(endpoint: &Endpoint) -> Value {
    let in_path = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        let (pattern, means) = match name {
            "version" => (HASH, "The hash of a base or a delta."),
            "file" => ("^[a-z]+[.][a-z]+$", "The name of a file."),
            _ => ("", "A database."),
        };
        json!({ "name": name, "in": "path", "required": true, "description": means, "schema": text(pattern) })
    });
    let others = endpoint.parameters.iter().map(|Parameter { name, place, pattern, text: means }| {
        json!({ "name": name, "in": place, "description": means, "schema": text(pattern) })
    });
    let mut operation = json!({
        "summary": endpoint.summary,
        "parameters": in_path.chain(others).collect::<Vec<_>>(),
        "responses": responses(endpoint),
    });
    if let Some(scope) = endpoint.scope {
        operation["security"] = json!([{ "token": [scope.name()] }]);
    }
    if let Some(content_type) = endpoint.body {
        operation["requestBody"] = json!({ "required": true, "content": { content_type: {} } });
    }
    operation
}

/// Returns the possible responses of an endpoint, by status.
fn responses(endpoint: &Endpoint) -> Map<String, Value> {
    let mut responses: BTreeMap<u16, Value> = BTreeMap::new();
    for Success { status, content_type, schema, headers, text } in &endpoint.successes {
        let response = responses.entry(*status).or_insert_with(|| json!({ "description": text }));
        for (name, pattern, text) in *headers {
            response["headers"][*name] = header(pattern, text);
        }
        if !content_type.is_empty() {
            response["content"][*content_type] = if schema.is_empty() { json!({}) } else { refers(schema) };
        }
    }
    let gate = endpoint.scope.into_iter().flat_map(|_| AT_THE_GATE);
    // Any endpoint may have a defect or receive a wrong Host.
    let causes = endpoint.causes.iter().copied().chain(gate).chain([Code::Malformed, Code::Internal]);
    let mut refusals: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in causes {
        let names = refusals.entry(Refused::status(code).as_u16()).or_default();
        if !names.contains(&name(code)) {
            names.push(name(code));
        }
    }
    for (status, names) in refusals {
        responses.entry(status).or_insert_with(|| refusal(status, &names.join(", ")));
    }
    responses.into_iter().map(|(status, response)| (status.to_string(), response)).collect()
}

/// Returns the response of a refusal with one of `causes`.
fn refusal(status: u16, causes: &str) -> Value {
    let (name, pattern, text) = FORM;
    let mut headers = json!({ name: header(pattern, text) });
    match status {
        401 => headers["WWW-Authenticate"] = header("^Bearer$", "What is missing."),
        416 => headers["Content-Range"] = header("^bytes [*]/[0-9]+$", "The length of the whole."),
        429 | 503 => {
            let schema = json!({ "type": "integer", "minimum": 1 });
            headers["Retry-After"] =
                json!({ "description": "Seconds; where trying again may help.", "schema": schema });
        }
        _ => (),
    }
    json!({
        "description": causes,
        "headers": headers,
        "content": { spirea_wire::CONTENT_TYPE: {}, PROBLEM: refers("Problem") },
    })
}

fn header(pattern: &str, means: &str) -> Value {
    json!({ "description": means, "required": true, "schema": text(pattern) })
}

fn refers(schema: &str) -> Value {
    json!({ "schema": { "$ref": format!("#/components/schemas/{schema}") } })
}

/// Returns the schema of a text, with its pattern if there is one.
fn text(pattern: &str) -> Value {
    if pattern.is_empty() {
        json!({ "type": "string" })
    } else {
        json!({ "type": "string", "pattern": pattern })
    }
}
