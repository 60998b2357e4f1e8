use spirea_protocols::registry::ProtocolParams;

use crate::ClientError;

/// Policy for a pseudorandom function with little cryptanalysis behind it
/// ([`PrfKind::needs_consent`](spirea_protocols::PrfKind::needs_consent)). The servers name the
/// function, but the function decides what they can learn, so the client chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeakPrf {
    /// Refuses with [`ClientError::WeakPrf`].
    #[default]
    Refuse,
    /// Treats such a function like any other.
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
