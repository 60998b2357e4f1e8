//! The server over real sockets, with well-behaved and misbehaving clients.

mod admin;
mod apple;
mod background;
mod client;
mod download;
mod faults;
mod fixture;
mod frames;
mod keys;
mod limits;
mod memory;
mod openapi;
mod operations;
mod problems;
mod proxy;
mod publish;
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
