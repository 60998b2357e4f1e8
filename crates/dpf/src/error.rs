/// Error of generating or reading keys. Contains nothing of a key's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DpfError {
    /// There is no such party.
    #[error("the parties are 0 and 1")]
    Party(u8),
    /// A domain that is empty or too large.
    #[error("a domain has between 1 and 2^40 points, not {0}")]
    Points(u64),
    /// A point outside the domain.
    #[error("the point lies outside the domain")]
    Outside,
    /// Points that do not begin at a subtree with room for all of them.
    #[error("the points do not begin where a subtree does that has room for them")]
    Subtree,
    /// No such function or output.
    #[error("there is no {what} {name:?}; there are {known}")]
    Unknown {
        /// Kind of the named item.
        what: &'static str,
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
    /// A key whose bytes are not a key of the domain.
    #[error("malformed key: {0}")]
    Key(&'static str),
}
