//! Every kernel against its definition, for every instruction set of this processor.

mod common;
mod each;
mod evaluate;
mod fixed;
mod matrix;
mod module_fold;
mod rates;
mod residues;
mod ring;
mod rotations;
mod scalar_fold;
mod share_fold;
