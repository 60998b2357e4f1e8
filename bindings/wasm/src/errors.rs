//! Errors in the form that JavaScript receives.

use serde::Serialize;
use spirea_client::ClientError;
use spirea_protocols::{Party, ProtocolError};
use spirea_wasm_memory::Mismatch;
use spirea_wire::WireError;

/// An error: a code for programs, and a text for people with a remedy. Neither contains any part of
/// the keys or indices asked for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    party: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl From<Mismatch> for Failure {
    fn from(mismatch: Mismatch) -> Self {
        Self {
            code: "internal",
            message: mismatch.to_string(),
            status: None,
            refusal: None,
            party: None,
            url: None,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let cause = error.cause();
        let (status, refusal) = match cause {
            ClientError::Refused { status, refusal } => {
                (Some(*status), Some(refusal.code.as_str_name().trim_start_matches("ERROR_CODE_")))
            }
            ClientError::UnexpectedStatus { status } => (Some(*status), None),
            _ => (None, None),
        };
        let (party, url) = match &error {
            ClientError::Party { party, url, .. } => (Some(*party), Some(url.clone())),
            ClientError::Server { url, .. } => (None, Some(url.clone())),
            _ => (None, None),
        };
        let party = party.map(|party: Party| party.number());
        Self { code: code(cause), message: error.to_string(), status, refusal, party, url }
    }
}

/// Returns the name of an error, which never changes between versions.
fn code(error: &ClientError) -> &'static str {
    match error {
        ClientError::BadAddress(_) => "bad-address",
        ClientError::BadOption(_) => "bad-option",
        ClientError::Wire(WireError::Format { .. }) => "other-version",
        ClientError::Wire(_) => "unusable-response",
        ClientError::WrongConfig(_) => "wrong-config",
        ClientError::HintTooLarge { .. } => "hint-too-large",
        ClientError::HintCorrupted => "hint-corrupted",
        ClientError::Changing => "changing",
        ClientError::StillStale => "still-stale",
        ClientError::KeysForgotten => "keys-forgotten",
        ClientError::KeysEnded => "keys-ended",
        ClientError::KeysChanged => "keys-changed",
        ClientError::Refused { .. } => "refused",
        ClientError::UnexpectedStatus { .. } => "unexpected-status",
        ClientError::Unreachable(_) => "unreachable",
        ClientError::UnknownHost(_) => "unknown-host",
        ClientError::Untrusted(_) => "untrusted-server",
        ClientError::Unusable(_) => "unusable-response",
        ClientError::TimedOut(_) => "timed-out",
        ClientError::Broken(_) => "broken",
        ClientError::Cache { .. } => "storage",
        ClientError::Protocol(error) => protocol_code(error),
        ClientError::DifferentSnapshots { .. } => "different-snapshots",
        ClientError::WeakPrf { .. } => "weak-prf",
        ClientError::NoEntropy(_) => "no-entropy",
        _ => "internal",
    }
}

fn protocol_code(error: &ProtocolError) -> &'static str {
    match error {
        ProtocolError::Malformed { .. } | ProtocolError::Corrupted => "wrong-answer",
        ProtocolError::Unproven => "unproven",
        ProtocolError::BadRequest(_) => "bad-request",
        ProtocolError::Untrusted(_) => "untrusted-version",
        ProtocolError::NoEntropy(_) => "no-entropy",
        _ => "internal",
    }
}
