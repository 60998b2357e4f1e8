//! Generates input for the benches of `rtl/`: transforms and matrix products, with their results.
//!
//! `cargo run --package spirea-math --example sysnttu_vectors -- LANES > FILE`. Words are
//! hexadecimal. Operations follow each other immediately, except where `idle` intervenes:
//!
//! ```text
//! transform PRIME INVERSE     then N words, and the N that they become, in the order of `NttPlan`
//! product PRIME DEPTH PAUSE   then the left matrix, the right one and their product, row by row; with a PAUSE above 0, a
//!                             cycle without operands follows each PAUSE with
//! idle CYCLES
//! ```

use std::io::{BufWriter, Write};

use spirea_math::random::{Seed, public_residues};
use spirea_math::{Modulus, NttPlan};

/// The primes of IVE: 2^27 + 2^k + 1.
const PRIMES: [Modulus; 4] = [
    Modulus::new((1 << 27) + (1 << 15) + 1),
    Modulus::new((1 << 27) + (1 << 17) + 1),
    Modulus::new((1 << 27) + (1 << 21) + 1),
    Modulus::new((1 << 27) + (1 << 22) + 1),
];

/// Rows of the array's operands in IVE: the size of the first dimension.
const DEPTH: usize = 256;

struct Program<W> {
    out: W,
    lanes: usize,
    plans: Vec<NttPlan>,
    stream: u64,
}

impl<W: Write> Program<W> {
    fn random(&mut self, prime: usize, count: usize) -> Vec<u32> {
        self.stream += 1;
        let mut words = vec![0; count];
        public_residues(&Seed::new([7; 32]), self.stream, PRIMES[prime], &mut words);
        words
    }

    fn words(&mut self, words: &[u32]) -> std::io::Result<()> {
        for line in words.chunks(16) {
            let line: Vec<_> = line.iter().map(|word| format!("{word:x}")).collect();
            writeln!(self.out, "{}", line.join(" "))?;
        }
        Ok(())
    }

    fn transform(&mut self, prime: usize, inverse: bool, input: &[u32]) -> std::io::Result<()> {
        let mut output = input.to_vec();
        if inverse {
            self.plans[prime].inverse(&mut output)
        } else {
            self.plans[prime].forward(&mut output)
        }
        writeln!(self.out, "transform {prime} {}", u8::from(inverse))?;
        self.words(input)?;
        self.words(&output)
    }

    fn random_transform(&mut self, prime: usize, inverse: bool) -> std::io::Result<()> {
        let input = self.random(prime, self.lanes * self.lanes);
        self.transform(prime, inverse, &input)
    }

    fn rows_and_columns(&self) -> (usize, usize) {
        (self.lanes / 2, 2 * self.lanes.ilog2() as usize + 4)
    }

    fn product(&mut self, prime: usize, pause: usize, left: &[u32], right: &[u32]) -> std::io::Result<()> {
        let (q, (rows, columns)) = (PRIMES[prime], self.rows_and_columns());
        let depth = left.len() / rows;
        let mut sums = vec![0; rows * columns];
        for (row, sums) in left.chunks_exact(depth).zip(sums.chunks_exact_mut(columns)) {
            for (&a, right) in row.iter().zip(right.chunks_exact(columns)) {
                sums.iter_mut().zip(right).for_each(|(sum, &b)| *sum = q.add(*sum, q.mul(a, b)));
            }
        }
        writeln!(self.out, "product {prime} {depth:x} {pause:x}")?;
        self.words(left)?;
        self.words(right)?;
        self.words(&sums)
    }

    fn random_product(&mut self, prime: usize, depth: usize, pause: usize) -> std::io::Result<()> {
        let (rows, columns) = self.rows_and_columns();
        let (left, right) = (self.random(prime, rows * depth), self.random(prime, depth * columns));
        self.product(prime, pause, &left, &right)
    }

    fn idle(&mut self, cycles: usize) -> std::io::Result<()> {
        if cycles > 0 { writeln!(self.out, "idle {cycles:x}") } else { Ok(()) }
    }

    fn all(&mut self) -> std::io::Result<()> {
        let degree = self.lanes * self.lanes;
        let (rows, columns) = self.rows_and_columns();
        // Writes transforms of inputs that most likely reveal errors: all zeros, all maximal, and
        // single coefficients.
        for (prime, modulus) in PRIMES.iter().enumerate() {
            let largest = modulus.value() - 1;
            for inverse in [false, true] {
                self.transform(prime, inverse, &vec![0; degree])?;
                self.transform(prime, inverse, &vec![largest; degree])?;
                for place in [0, 1, self.lanes, degree - 1] {
                    let mut input = vec![0; degree];
                    input[place] = largest;
                    self.transform(prime, inverse, &input)?;
                }
            }
        }
        // Runs every prime and direction immediately after every other, and at all distances up to
        // two polynomials.
        for of in 0..8 {
            for next in 0..=of {
                self.random_transform(of % 4, of >= 4)?;
                self.random_transform(next % 4, next >= 4)?;
            }
        }
        for cycles in 1..self.lanes + 2 {
            self.idle(cycles)?;
            self.random_transform(cycles % 4, cycles / 4 % 2 == 1)?;
        }
        // Writes products, with the same kinds of inputs.
        for (prime, modulus) in PRIMES.iter().enumerate() {
            let largest = modulus.value() - 1;
            for depth in [1, DEPTH] {
                self.product(prime, 0, &vec![0; rows * depth], &vec![largest; depth * columns])?;
                self.product(prime, 0, &vec![largest; rows * depth], &vec![largest; depth * columns])?;
            }
        }
        for of in 0..4 {
            self.random_product(of, DEPTH, 0)?;
            for next in 0..=of {
                self.random_product(of, rows, 0)?;
                self.random_product(next, columns, 0)?;
            }
        }
        for depth in 1..2 * columns {
            self.random_product(depth % 4, depth, depth % 5)?;
            self.idle(depth)?;
        }
        // Switches between transforms and products, at once and after idling.
        for cycles in 0..8 {
            for prime in 0..4 {
                self.random_transform(prime, cycles % 2 == 1)?;
                self.idle(cycles * cycles)?;
                self.random_product(3 - prime, 1 + cycles * prime, 0)?;
                self.idle(cycles * cycles * prime)?;
            }
        }
        self.out.flush()
    }
}

fn main() -> std::io::Result<()> {
    let lanes = std::env::args().nth(1).and_then(|lanes| lanes.parse().ok());
    let Some(lanes @ (8 | 16 | 64)) = lanes else {
        return Err(std::io::Error::other("usage: sysnttu_vectors LANES, which is 8, 16 or 64"));
    };
    let plans = PRIMES.map(|prime| NttPlan::new(prime, lanes * lanes)).into();
    Program { out: BufWriter::new(std::io::stdout().lock()), lanes, plans, stream: 0 }.all()
}
