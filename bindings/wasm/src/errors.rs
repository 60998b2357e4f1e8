//! Errors in the form that JavaScript receives.

use serde::Serialize;
use spirea_client::ClientError;
use spirea_protocols::{Party, ProtocolError};
use spirea_wasm_memory::Mismatch;
use spirea_wire::WireError;

/// Defines [`Code`], with the name and the documentation of each code.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident = $name:literal,)+) => {
        /// Code of an error, for programs. Codes are stable across releases.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum Code {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $code,)+
        }

        #[cfg(test)]
        impl Code {
            /// The name of each code, with its documentation.
            pub const ALL: &[(&str, &str)] = &[$(($name, concat!($($doc, "\n"),+))),+];
        }
    };
}

codes! {
    /// An address or a name is invalid, or there are too few or too many addresses.
    BadAddress = "bad-address",
    /// An option is invalid.
    BadOption = "bad-option",
    /// A key, an index or a field is invalid.
    BadRequest = "bad-request",
    /// The server uses another format of messages: client or server is older.
    OtherVersion = "other-version",
    /// The response is not that of a Spirea server.
    UnusableResponse = "unusable-response",
    /// The response has a status that Spirea servers do not use.
    UnexpectedStatus = "unexpected-status",
    /// The parts of a configuration are inconsistent.
    WrongConfig = "wrong-config",
    /// The hint is longer than `maxHintBytes`.
    HintTooLarge = "hint-too-large",
    /// The hint does not have the hash in the configuration.
    HintCorrupted = "hint-corrupted",
    /// The database kept changing during a download.
    Changing = "changing",
    /// The server refuses queries for the version that it has just announced.
    StillStale = "still-stale",
    /// The server does not keep the evaluation keys that it received.
    KeysForgotten = "keys-forgotten",
    /// The secret for these answers was erased, because another answer did not verify.
    KeysEnded = "keys-ended",
    /// The server received evaluation keys that differ from those sent.
    KeysChanged = "keys-changed",
    /// The server refused the request; `refusal` and `status` have the reason.
    Refused = "refused",
    /// No server listens at the address, this device is offline, or the server does not allow
    /// this page's origin.
    Unreachable = "unreachable",
    /// The host name does not resolve.
    UnknownHost = "unknown-host",
    /// The server's certificate is not trusted.
    UntrustedServer = "untrusted-server",
    /// The server did not answer within the timeout.
    TimedOut = "timed-out",
    /// The connection broke.
    Broken = "broken",
    /// A stored secret cannot be removed, so it could be used twice.
    Storage = "storage",
    /// An answer failed its checksum and was withheld: data is damaged, or the server is
    /// malicious.
    WrongAnswer = "wrong-answer",
    /// A record is intact, but differs from the one that the operator published.
    Unproven = "unproven",
    /// The pinned key has not signed this version.
    UntrustedVersion = "untrusted-version",
    /// Two servers serve different versions.
    DifferentSnapshots = "different-snapshots",
    /// The database's pseudorandom function must be accepted first: `acceptWeakPrf`.
    WeakPrf = "weak-prf",
    /// There is no source of randomness, which queries need.
    NoEntropy = "no-entropy",
    /// The client's code or its worker stopped because of a defect: connect again, and report it.
    Internal = "internal",
}

/// An error: a code for programs, and a text for people with a remedy. Neither contains any part of
/// the keys or indices asked for.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Failure {
    #[cfg_attr(test, ts(type = "ErrorCode"))]
    code: Code,
    message: String,
    #[serde(flatten)]
    circumstances: Circumstances,
}

/// Details of a failure, beside its code and its message.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(optional_fields))]
pub struct Circumstances {
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// The server's own code, such as `STALE_VERSION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'static str>,
    /// Index of the server, if there are two.
    #[serde(skip_serializing_if = "Option::is_none")]
    party: Option<u8>,
    /// Address of the server; the first of its addresses if there is one server.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl From<Mismatch> for Failure {
    fn from(mismatch: Mismatch) -> Self {
        Self { code: Code::Internal, message: mismatch.to_string(), circumstances: Circumstances::default() }
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
        let circumstances = Circumstances { status, refusal, party, url };
        Self { code: code(cause), message: error.to_string(), circumstances }
    }
}

fn code(error: &ClientError) -> Code {
    match error {
        ClientError::BadAddress(_) => Code::BadAddress,
        ClientError::BadOption(_) => Code::BadOption,
        ClientError::Wire(WireError::Format { .. }) => Code::OtherVersion,
        ClientError::Wire(_) => Code::UnusableResponse,
        ClientError::WrongConfig(_) => Code::WrongConfig,
        ClientError::HintTooLarge { .. } => Code::HintTooLarge,
        ClientError::HintCorrupted => Code::HintCorrupted,
        ClientError::Changing => Code::Changing,
        ClientError::StillStale => Code::StillStale,
        ClientError::KeysForgotten => Code::KeysForgotten,
        ClientError::KeysEnded => Code::KeysEnded,
        ClientError::KeysChanged => Code::KeysChanged,
        ClientError::Refused { .. } => Code::Refused,
        ClientError::UnexpectedStatus { .. } => Code::UnexpectedStatus,
        ClientError::Unreachable(_) => Code::Unreachable,
        ClientError::UnknownHost(_) => Code::UnknownHost,
        ClientError::Untrusted(_) => Code::UntrustedServer,
        ClientError::Unusable(_) => Code::UnusableResponse,
        ClientError::TimedOut(_) => Code::TimedOut,
        ClientError::Broken(_) => Code::Broken,
        ClientError::Cache { .. } => Code::Storage,
        ClientError::Protocol(error) => protocol_code(error),
        ClientError::DifferentSnapshots { .. } => Code::DifferentSnapshots,
        ClientError::WeakPrf { .. } => Code::WeakPrf,
        ClientError::NoEntropy(_) => Code::NoEntropy,
        _ => Code::Internal,
    }
}

fn protocol_code(error: &ProtocolError) -> Code {
    match error {
        ProtocolError::Malformed { .. } | ProtocolError::Corrupted => Code::WrongAnswer,
        ProtocolError::Unproven => Code::Unproven,
        ProtocolError::BadRequest(_) => Code::BadRequest,
        ProtocolError::Untrusted(_) => Code::UntrustedVersion,
        ProtocolError::NoEntropy(_) => Code::NoEntropy,
        _ => Code::Internal,
    }
}
