//! From bytes to bytes: databases, admission and the answering of queries.
