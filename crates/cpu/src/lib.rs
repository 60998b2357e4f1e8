//! The CPU backend: portable, AVX2 and AVX-512 kernels behind one dispatch table.
