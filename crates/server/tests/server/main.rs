//! The server over real sockets, with clients that behave and clients that do not.

mod client;
mod download;
mod faults;
mod fixture;
mod keys;
mod operations;
mod proxy;
mod statuses;
