//! The server over real sockets, with well-behaved and misbehaving clients.

mod admin;
mod apple;
mod apple_tokens;
mod background;
mod client;
mod download;
mod faults;
mod fixture;
mod follow;
mod former;
mod frames;
mod gateway;
mod hostile;
mod keys;
mod limits;
mod memory;
mod openapi;
mod operations;
#[cfg(target_os = "linux")]
mod priority;
mod problems;
mod proxy;
mod publish;
mod read_only;
mod redis;
mod redis_server;
mod reload;
mod replicas;
mod stalls;
mod statuses;
mod tls;
mod tokens;
mod traces;
mod uniform;
