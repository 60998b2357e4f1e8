use spirea_protocols::registry::ProtocolParams;

use crate::ClientError;

/// Whether a client asks under a pseudorandom function that has little cryptanalysis behind it
/// ([`PrfKind::needs_consent`](spirea_protocols::PrfKind::needs_consent)). The servers name the function, but what
/// they learn rests on it: the choice is the client's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeakPrf {
    /// Not at all: [`ClientError::WeakPrf`].
    #[default]
    Refuse,
    /// As under any other.
    Accept,
}

impl WeakPrf {
    /// Checks a database's function, if its protocol has one.
    pub(crate) fn check(self, params: &ProtocolParams) -> Result<(), ClientError> {
        match (self, params.prf()) {
            (Self::Refuse, Some(prf)) if prf.needs_consent() => Err(ClientError::WeakPrf { prf }),
            _ => Ok(()),
        }
    }
}
