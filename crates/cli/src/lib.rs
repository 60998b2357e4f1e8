//! The spirea command.
