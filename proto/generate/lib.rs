//! The test of this package generates the messages of `spirea-wire` and compares them with the
//! committed ones.
