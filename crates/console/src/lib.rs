//! Options, help texts and output that the commands `spirea` and `spirea-lab` share.
//!
//! - [`output`] and [`status`]: results, errors and exit statuses.
//! - [`help`]: examples and exit statuses in help texts.
//! - [`access`], [`address`], [`device`], [`input`] and [`threads`]: options of several commands,
//!   and their parsers.

pub mod access;
pub mod address;
pub mod device;
pub mod help;
pub mod input;
pub mod output;
pub mod status;
pub mod threads;
