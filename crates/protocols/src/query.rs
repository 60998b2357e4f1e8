//! A query as a server receives it.

use crate::keys::PreparedKeys;

/// One query of a batch, with the keys of the client that sent it.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// The query's bytes.
    pub bytes: &'a [u8],
    /// The client's evaluation keys; `None` if the protocol needs none.
    pub keys: Option<&'a PreparedKeys>,
}
