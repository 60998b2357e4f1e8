//! The protocols, one folder each: parameters, both halves, and precomputation.

pub mod double;
pub mod double_pack;
pub mod dpf;
pub mod exppack_double;
pub mod exppack_simple;
pub mod hybrid;
pub mod onion;
pub mod simple;
