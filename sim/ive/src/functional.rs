//! The lowered graphs, executed on ciphertexts: a schedule that is wrong is wrong in the answer.
//!
//! A register file has as many places as the schedule found, and operations read and write places: what is overwritten
//! too early, or read too early, is another ciphertext. Arithmetic is exact, so that the words are those of any backend.

use spirea_math::{Expansion, Gadget, Ring, Rotations};

use crate::arch::Arch;
use crate::error::IveError;
use crate::graph::{Graph, Operand, Work};
use crate::rotation::{lower_rotations, lower_sums};
use crate::schedule::{Schedule, lower_assembly};
use crate::system::Schedules;

/// A ciphertext as coefficients, prime by prime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ciphertext {
    /// What is multiplied by the secret.
    pub a: Vec<u32>,
    /// The rest.
    pub b: Vec<u32>,
}

/// A key: ciphertexts as values, one for each digit of what it multiplies; of an RGSW ciphertext those of b come first.
#[derive(Clone, Debug)]
pub struct Key {
    /// How polynomials are decomposed.
    pub gadget: Gadget,
    /// Its rows.
    pub rows: Vec<Ciphertext>,
}

/// In which order operations are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// As they were written.
    Program,
    /// As late as the graph allows what was written first.
    LatestFirst,
}

/// A client's keys.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Of the substitutions, by level.
    pub expansion: Vec<Key>,
    /// Of the rotations, in the order of [`Rotations::keys`]; empty if nothing is rotated.
    pub rotations: Vec<Key>,
    /// The RGSW encryption of the secret.
    pub conversion: Key,
}

/// The exponents of a graph's automorphisms.
#[derive(Clone, Copy)]
enum Exponents<'a> {
    /// There are none.
    None,
    /// Those of the levels of an expansion, from this one on.
    From(u32),
    /// By the number of the key.
    Of(&'a [usize]),
}

/// A machine that computes.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// What it is: the schedules depend on its register file.
    pub arch: &'a Arch,
    /// The ring; of any degree.
    pub ring: &'a Ring,
    /// How trees are worked through.
    pub schedules: Schedules,
    /// In which order.
    pub execution: Execution,
}

impl Machine<'_> {
    /// ExpandQuery without the selectors: the leaves of a ciphertext, or of a leaf of another expansion.
    ///
    /// # Errors
    /// Those of the schedule, and [`IveError::Graph`] if keys are missing.
    pub fn expand(
        &self,
        keys: &Keys,
        expansion: Expansion,
        query: Ciphertext,
    ) -> Result<Vec<Ciphertext>, IveError> {
        let schedule = &self.schedules.expand;
        let (mut nodes, mut top) = (vec![query], 0);
        for layer in schedule.layers_of(expansion.levels(), expansion.leaves() as u64) {
            let graph = schedule.lower_expansion(self.arch, expansion, top, layer.levels)?;
            let level = expansion.first() + top;
            let keys = keys.expansion.get(level as usize..).unwrap_or(&[]);
            nodes = self.execute(&graph, keys, Exponents::From(level), &nodes)?;
            top += layer.levels;
        }
        Ok(nodes)
    }

    /// The selectors of leaves, as many of them for each bit as the selectors' gadget has digits.
    ///
    /// # Errors
    /// As [`Machine::expand`].
    pub fn assemble(&self, keys: &Keys, leaves: &[Ciphertext], gadget: Gadget) -> Result<Vec<Key>, IveError> {
        let Schedule { digits, .. } = self.schedules.expand;
        let graph = lower_assembly(self.arch, digits, leaves.len() as u64)?;
        let rows = self.execute(&graph, std::slice::from_ref(&keys.conversion), Exponents::None, leaves)?;
        let selector = |rows: &[Ciphertext]| {
            let values = |row: &Ciphertext| self.transformed(row);
            let (own, products) = (rows.iter().step_by(2), rows.iter().skip(1).step_by(2));
            Key { gadget, rows: own.chain(products).map(values).collect() }
        };
        Ok(rows.chunks(2 * gadget.levels(self.ring)).map(selector).collect())
    }

    /// RowSel: rows of plaintext polynomials (values) times leaves, tile by tile of the output-stationary array, one
    /// residue after another.
    ///
    /// # Errors
    /// [`IveError::Graph`] if a row has more polynomials than there are leaves.
    pub fn select_rows(
        &self,
        rows: &[Vec<Vec<u32>>],
        leaves: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, IveError> {
        if let Some(row) = rows.iter().position(|row| row.len() > leaves.len()) {
            return Err(IveError::Graph {
                node: row,
                problem: format!("a row of more than {} polynomials", leaves.len()),
                remedy: "expand to as many leaves as a row has polynomials".into(),
            });
        }
        let leaves: Vec<Ciphertext> = leaves.iter().map(|leaf| self.transformed(leaf)).collect();
        let zero = || Ciphertext { a: self.ring.zero(), b: self.ring.zero() };
        let mut sums: Vec<Ciphertext> = rows.iter().map(|_| zero()).collect();
        let degree = self.ring.degree();
        for (limb, residues) in self.ring.limbs().iter().enumerate() {
            let prime = u64::from(residues.prime().value());
            for slice in limb * degree..(limb + 1) * degree {
                let panels = rows
                    .chunks(self.arch.core.array_rows as usize)
                    .zip(sums.chunks_mut(self.arch.core.array_rows as usize));
                for (row, sum) in panels.flat_map(|(rows, sums)| rows.iter().zip(sums)) {
                    // The cells of a row of the array stand for a and b; operands pass one after another.
                    let (mut a, mut b) = (0, 0);
                    for (polynomial, leaf) in row.iter().zip(&leaves) {
                        let factor = u64::from(polynomial[slice]);
                        a = (a + factor * u64::from(leaf.a[slice])) % prime;
                        b = (b + factor * u64::from(leaf.b[slice])) % prime;
                    }
                    (sum.a[slice], sum.b[slice]) = (a as u32, b as u32);
                }
            }
        }
        Ok(sums.iter().map(|sum| self.coefficients(sum)).collect())
    }

    /// ColTor: the ciphertext that selectors choose, lowest bit first.
    ///
    /// # Errors
    /// As [`Machine::expand`].
    pub fn tournament(&self, selectors: &[Key], rows: Vec<Ciphertext>) -> Result<Ciphertext, IveError> {
        let schedule = &self.schedules.coltor;
        let (mut rows, mut bottom) = (rows, 0);
        for layer in schedule.layers(rows.len() as u64) {
            let graph = schedule.lower_tournament(self.arch, layer.levels, layer.loads)?;
            rows = self.execute(&graph, selectors.get(bottom..).unwrap_or(&[]), Exponents::None, &rows)?;
            bottom += layer.levels as usize;
        }
        rows.pop().ok_or_else(|| absent(0, "a row"))
    }

    /// The images of chunks of a secret.
    ///
    /// # Errors
    /// As [`Machine::expand`].
    pub fn rotate(
        &self,
        keys: &Keys,
        rotations: Rotations,
        chunks: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, IveError> {
        let graph = lower_rotations(self.arch, self.schedules.expand.digits, rotations)?;
        let exponents = rotations.keys(self.ring.degree());
        self.execute(&graph, &keys.rotations, Exponents::Of(&exponents), chunks)
    }

    /// Sums of images, for each as many ciphertexts as there are big automorphisms.
    ///
    /// # Errors
    /// As [`Machine::expand`].
    pub fn sum_rotated(
        &self,
        keys: &Keys,
        rotations: Rotations,
        ciphertexts: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, IveError> {
        let sums = (ciphertexts.len() / rotations.big()) as u64;
        let graph = lower_sums(self.arch, self.schedules.expand.digits, rotations, sums)?;
        let exponents = rotations.keys(self.ring.degree());
        self.execute(&graph, &keys.rotations, Exponents::Of(&exponents), ciphertexts)
    }

    /// Executes a graph on ciphertexts in memory; gives what it stores.
    fn execute(
        &self,
        graph: &Graph,
        keys: &[Key],
        exponents: Exponents<'_>,
        memory: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, IveError> {
        let program: Vec<usize>;
        let order = match self.execution {
            Execution::LatestFirst => graph.latest_first(),
            Execution::Program => {
                program = (0..graph.nodes().len()).collect();
                &program
            }
        };
        let mut places: Vec<Option<Ciphertext>> = Vec::new();
        let mut stored: Vec<Option<Ciphertext>> = Vec::new();
        for &number in order {
            let node = &graph.nodes()[number];
            let most = node.operands.iter().map(|it| it.place).chain(node.place).max();
            places.resize(places.len().max(most.map_or(0, |most| most + 1)), None);
            let read = |which: usize| -> Result<&Ciphertext, IveError> {
                let found =
                    node.operands.get(which).and_then(|&Operand { place, .. }| places[place].as_ref());
                found.ok_or_else(|| absent(number, "an operand"))
            };
            let key = |level: u32| keys.get(level as usize).ok_or_else(|| absent(number, "a key"));
            let place = || node.place.ok_or_else(|| absent(number, "a place"));
            match node.work {
                Work::LoadKey { .. } => {}
                Work::LoadCiphertext { index } => {
                    let loaded = memory.get(index as usize).ok_or_else(|| absent(number, "a ciphertext"))?;
                    let place = place()?;
                    places[place] = Some(loaded.clone());
                }
                Work::StoreCiphertext { index } => {
                    let ciphertext = read(0)?.clone();
                    stored.resize(stored.len().max(index as usize + 1), None);
                    stored[index as usize] = Some(ciphertext);
                }
                Work::Product { level } => {
                    let (x, y) = (read(0)?, read(1)?);
                    let mut difference = y.clone();
                    self.ring.sub_assign(&mut difference.a, &x.a);
                    self.ring.sub_assign(&mut difference.b, &x.b);
                    let product = self.external_product(key(level)?, &difference);
                    let z = self.sum(&product, x);
                    // The places are free from here on, whoever takes them.
                    places[node.operands[1].place] = None;
                    places[node.operands[0].place] = Some(z);
                }
                Work::Assembly => {
                    let product = self.external_product(key(0)?, read(0)?);
                    let place = place()?;
                    places[place] = Some(product);
                }
                Work::Rotation { key: which } => {
                    let exponent = match exponents {
                        Exponents::Of(exponents) => exponents.get(which as usize),
                        _ => None,
                    };
                    let exponent = exponent.ok_or_else(|| absent(number, "an exponent"))?;
                    let mut image = self.image(key(which)?, *exponent, read(0)?);
                    if let Some(added) = node.operands.get(1) {
                        image = self.sum(&image, read(1)?);
                        places[added.place] = None;
                    }
                    places[node.place.unwrap_or(node.operands[0].place)] = Some(image);
                }
                Work::Substitution { level } => {
                    let Exponents::From(top) = exponents else { return Err(absent(number, "a level")) };
                    let (even, odd) = self.split(key(level)?, top + level, read(0)?);
                    places[node.operands[0].place] = Some(even);
                    if let Some(place) = node.place {
                        places[place] = Some(odd);
                    }
                }
            }
        }
        stored
            .into_iter()
            .enumerate()
            .map(|(index, it)| it.ok_or_else(|| absent(index, "a result")))
            .collect()
    }

    /// The image of a ciphertext under an automorphism.
    fn image(&self, key: &Key, exponent: usize, c: &Ciphertext) -> Ciphertext {
        let (a, b) = (self.ring.automorphism(&c.a, exponent), self.ring.automorphism(&c.b, exponent));
        let mut image = self.key_product(key, &[&a]);
        self.ring.add_assign(&mut image.b, &b);
        image
    }

    /// The two children of a node of an expansion.
    fn split(&self, key: &Key, level: u32, c: &Ciphertext) -> (Ciphertext, Ciphertext) {
        let (ring, degree) = (self.ring, self.ring.degree());
        let image_of_c = self.image(key, Expansion::exponent(degree, level), c);
        let mut odd = c.clone();
        ring.sub_assign(&mut odd.a, &image_of_c.a);
        ring.sub_assign(&mut odd.b, &image_of_c.b);
        let shift = 2 * degree - (1 << level);
        let odd = Ciphertext { a: ring.mul_monomial(&odd.a, shift), b: ring.mul_monomial(&odd.b, shift) };
        (self.sum(c, &image_of_c), odd)
    }

    fn external_product(&self, key: &Key, c: &Ciphertext) -> Ciphertext {
        self.key_product(key, &[&c.b, &c.a])
    }

    /// Digits of polynomials times the rows of a key.
    fn key_product(&self, key: &Key, polynomials: &[&[u32]]) -> Ciphertext {
        let ring = self.ring;
        let mut sum = Ciphertext { a: ring.zero(), b: ring.zero() };
        let digits = polynomials.iter().flat_map(|polynomial| key.gadget.decompose(ring, polynomial));
        let digits: Vec<u32> = digits.collect();
        for (digit, row) in digits.chunks_exact(ring.words()).zip(&key.rows) {
            let mut digit = digit.to_vec();
            ring.forward(&mut digit);
            ring.mul_add(&mut sum.a, &digit, &row.a);
            ring.mul_add(&mut sum.b, &digit, &row.b);
        }
        self.coefficients(&sum)
    }

    fn sum(&self, one: &Ciphertext, other: &Ciphertext) -> Ciphertext {
        let mut sum = one.clone();
        self.ring.add_assign(&mut sum.a, &other.a);
        self.ring.add_assign(&mut sum.b, &other.b);
        sum
    }

    /// Values of coefficients.
    pub fn transformed(&self, c: &Ciphertext) -> Ciphertext {
        let mut values = c.clone();
        self.ring.forward(&mut values.a);
        self.ring.forward(&mut values.b);
        values
    }

    /// Coefficients of values.
    pub fn coefficients(&self, c: &Ciphertext) -> Ciphertext {
        let mut coefficients = c.clone();
        self.ring.inverse(&mut coefficients.a);
        self.ring.inverse(&mut coefficients.b);
        coefficients
    }
}

fn absent(node: usize, what: &str) -> IveError {
    IveError::Graph {
        node,
        problem: format!("{what} is not there"),
        remedy: "give as many keys as levels, and operations after those that they read".into(),
    }
}
