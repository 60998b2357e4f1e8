/// Why keys cannot be made or read. Carries nothing of a key's content.
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
    /// Points that are not the first ones of a subtree.
    #[error("the points do not begin where a subtree does that has room for them")]
    Subtree,
    /// No such function or output.
    #[error("there is no {what} {name:?}; there are {known}")]
    Unknown {
        /// What is named.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A key whose bytes are not a key of the domain.
    #[error("malformed key: {0}")]
    Key(&'static str),
}
