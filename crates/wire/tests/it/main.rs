//! The protobuf envelope.

mod envelope;
mod generated;
