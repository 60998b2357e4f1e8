//! Workers and a coordinator on this machine: the same answers as one server, whatever happens to
//! workers.

mod answers;
mod authority;
mod certificates;
mod failures;
mod fixture;
mod hostile;
mod placements;
mod proxy;
mod rogues;
mod traces;
mod workers;
