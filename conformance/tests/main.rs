//! All tests are one program: separate programs would each compile the protocols for their
//! backends.

mod added;
mod added_bins;
mod added_folds;
mod bins;
mod chosen;
mod client_vectors;
mod cuda;
mod hostile;
mod pim;
mod planned;
mod protocols;
mod scans;
mod selectors;
mod shards;
mod simple;
mod vectors;
mod wire_examples;
