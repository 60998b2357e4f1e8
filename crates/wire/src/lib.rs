//! The wire envelope: protobuf messages, errors and limits.
