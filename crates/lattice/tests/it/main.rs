//! Noise of the ring steps: measured, and bounded.

mod bound;
mod noise;
