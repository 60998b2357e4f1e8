//! Hierarchical search and reduction overlapping (section IV-A): subtrees whose working set fits in
//! the register file.
//!
//! A layer is several levels of a tree. Its keys, one for each level, are loaded once. Each of its
//! subtrees is loaded, processed on the chip, and stored. ColTor begins with the layer at the
//! leaves; ExpandQuery ends with it.

use std::collections::VecDeque;
use std::ops::Range;

use spirea_math::Expansion;

use crate::arch::{Arch, Scheme};
use crate::error::IveError;
use crate::graph::{Event, Graph, Node, Operand, Places, Work};

/// Tree of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Tournament of external products, from leaves to root.
    ColTor,
    /// Expansion of a query by substitutions, from root to leaves.
    Expand,
}

/// Order within a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Level by level.
    Bfs,
    /// Depth first, with a stack.
    Dfs,
}

/// Place of a decomposition's digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// All digits of an operation are in the register file before the first one is used.
    Stored,
    /// Digits are forwarded from the transform to the element-wise unit: reduction overlapping
    /// (R.O.).
    Forwarded,
}

/// Schedule of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Tree.
    pub step: Step,
    /// Order within a subtree.
    pub order: Order,
    /// Place of the digits.
    pub digits: Digits,
    /// Levels of a subtree; the subtrees of the layer at the root may have fewer.
    pub depth: u32,
}

/// Maximum number of levels of a subtree: deeper ones save too little for the time that they take
/// in the simulator.
pub const DEEPEST: u32 = 12;

/// Traffic over the memory channel of one core, for one query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of loaded ciphertexts.
    pub loads: u64,
    /// Number of stored ciphertexts.
    pub stores: u64,
    /// Bytes of loaded keys.
    pub key_bytes: u64,
}

impl Traffic {
    /// Returns the bytes of all traffic.
    pub fn bytes(&self, scheme: &Scheme) -> u64 {
        (self.loads + self.stores) * scheme.ciphertext_bytes() + self.key_bytes
    }

    /// Returns the sum of two traffics.
    pub fn plus(self, other: Self) -> Self {
        Self {
            loads: self.loads + other.loads,
            stores: self.stores + other.stores,
            key_bytes: self.key_bytes + other.key_bytes,
        }
    }
}

/// Layer of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Levels of the subtrees.
    pub levels: u32,
    /// Number of subtrees.
    pub subtrees: u64,
    /// Number of loaded ciphertexts: the leaves of the subtrees in ColTor, their roots in
    /// ExpandQuery.
    pub loads: u64,
    /// Number of stored ciphertexts: the roots of the subtrees in ColTor, their leaves in
    /// ExpandQuery.
    pub stores: u64,
}

impl Schedule {
    /// Returns a schedule with the deepest subtrees that fit, up to [`DEEPEST`].
    ///
    /// # Errors
    /// [`IveError::RegisterFile`] if not even one level fits.
    pub fn deepest(arch: &Arch, step: Step, order: Order, digits: Digits) -> Result<Self, IveError> {
        let with = |depth| Self { step, order, digits, depth };
        with(1).check(arch)?;
        let depth = (1..=DEEPEST).take_while(|&depth| with(depth).check(arch).is_ok()).last().unwrap_or(1);
        Ok(with(depth))
    }

    /// Returns the paper's baseline: level by level over the whole tree, keeping only the key of
    /// the level.
    ///
    /// # Errors
    /// As [`Schedule::check`].
    pub fn baseline(arch: &Arch, step: Step) -> Result<Self, IveError> {
        let schedule = Self { step, order: Order::Bfs, digits: Digits::Stored, depth: 1 };
        schedule.check(arch)?;
        Ok(schedule)
    }

    /// Returns the bytes of a level's key.
    pub fn key_bytes(&self, scheme: &Scheme) -> u64 {
        match self.step {
            Step::ColTor => scheme.rgsw_bytes(),
            Step::Expand => scheme.evaluation_key_bytes(),
        }
    }

    /// Returns the maximum bytes of digits at the same time, t.
    pub fn digit_bytes(&self, scheme: &Scheme) -> u64 {
        match (self.digits, self.step) {
            (Digits::Forwarded, _) => scheme.polynomial_bytes(),
            (Digits::Stored, Step::ColTor) => 2 * scheme.gadget_levels * scheme.polynomial_bytes(),
            (Digits::Stored, Step::Expand) => scheme.gadget_levels * scheme.polynomial_bytes(),
        }
    }

    /// Returns the maximum number of ciphertexts of a subtree at the same time.
    fn ciphertexts(&self) -> u64 {
        match self.order {
            Order::Bfs => 1 << self.depth.min(40),
            Order::Dfs => u64::from(self.depth) + 1,
        }
    }

    /// Returns the bytes of the working set: keys, ciphertexts, digits.
    pub fn working_set(&self, scheme: &Scheme) -> u64 {
        u64::from(self.depth) * self.key_bytes(scheme)
            + self.ciphertexts() * scheme.ciphertext_bytes()
            + self.digit_bytes(scheme)
    }

    /// Checks that the working set fits in the register file.
    ///
    /// # Errors
    /// [`IveError::RegisterFile`] if it does not fit, or the schedule has no level.
    pub fn check(&self, arch: &Arch) -> Result<(), IveError> {
        let (needed, available) = (self.working_set(&arch.scheme), arch.core.register_file_kb * 1024);
        if self.depth > 0 && needed <= available {
            return Ok(());
        }
        Err(IveError::RegisterFile {
            file: arch.file.clone(),
            schedule: format!("{self:?}"),
            needed,
            available,
            remedy: "give subtrees fewer levels, at least 1, or a larger register file".into(),
        })
    }

    /// Returns the places for the keys of a subtree and for ciphertexts: those of the working set,
    /// and free ones for prefetch.
    fn places(&self, arch: &Arch) -> Result<Places, IveError> {
        self.check(arch)?;
        let scheme = &arch.scheme;
        let taken = u64::from(self.depth) * self.key_bytes(scheme) + self.digit_bytes(scheme);
        let ciphertexts = (arch.core.register_file_kb * 1024 - taken) / scheme.ciphertext_bytes();
        Ok(Places { ciphertexts: ciphertexts as usize, keys: self.depth as usize })
    }

    /// Returns the layers of a tree with `leaves` leaves, in the order in which they are processed.
    pub fn layers(&self, leaves: u64) -> Vec<Layer> {
        self.layers_of(levels(leaves), leaves)
    }

    /// Returns the layers of a tree of `total` levels; some levels at the root may have only one
    /// node.
    pub fn layers_of(&self, total: u32, leaves: u64) -> Vec<Layer> {
        let below = |level: u32| leaves.div_ceil(1 << (total - level));
        let mut layers = Vec::new();
        let mut bottom = total;
        while bottom > 0 {
            let levels = self.depth.max(1).min(bottom);
            let (roots, ends) = (below(bottom - levels), below(bottom));
            let (loads, stores) = match self.step {
                Step::ColTor => (ends, roots),
                Step::Expand => (roots, ends),
            };
            layers.push(Layer { levels, subtrees: roots, loads, stores });
            bottom -= levels;
        }
        if self.step == Step::Expand {
            layers.reverse();
        }
        layers
    }

    /// Returns the traffic of a tree with `leaves` leaves.
    pub fn traffic(&self, scheme: &Scheme, leaves: u64) -> Traffic {
        let layers = self.layers(leaves);
        layers.iter().fold(Traffic::default(), |sum, layer| {
            sum.plus(Traffic {
                loads: layer.loads,
                stores: layer.stores,
                key_bytes: u64::from(layer.levels) * self.key_bytes(scheme),
            })
        })
    }

    /// Lowers a layer of a tournament of `rows` rows. A row without a partner stays as it is.
    ///
    /// # Errors
    /// [`IveError::RegisterFile`] if the schedule does not fit.
    pub fn lower_tournament(&self, arch: &Arch, levels: u32, rows: u64) -> Result<Graph, IveError> {
        let mut lowered = Lowering::new(self, arch, levels)?;
        let width = 1 << levels;
        for subtree in 0..rows.div_ceil(width) {
            let leaves = subtree * width..rows.min((subtree + 1) * width);
            let root = match self.order {
                Order::Dfs => lowered.tournament_depth_first(leaves)?,
                Order::Bfs => lowered.tournament_by_levels(leaves)?,
            };
            lowered.store(root, subtree);
        }
        lowered.graph()
    }

    /// Lowers a layer of an expansion: `depth` levels from level `top` on.
    ///
    /// # Errors
    /// [`IveError::RegisterFile`] if the schedule does not fit.
    pub fn lower_expansion(
        &self,
        arch: &Arch,
        expansion: Expansion,
        top: u32,
        depth: u32,
    ) -> Result<Graph, IveError> {
        let mut lowered = Lowering::new(self, arch, depth)?;
        for root in 0..expansion.nodes(top) as u64 {
            let loaded = lowered.load(root)?;
            // An entry has a node's level, its number within the level, and its ciphertext.
            let mut open = VecDeque::from([(top, root, loaded)]);
            while let Some((level, number, made)) = open.pop_front() {
                if level == top + depth {
                    lowered.store(made, number);
                    continue;
                }
                let key = Some(lowered.key(level - top));
                let (mut place, mut after) = (None, Vec::new());
                if 2 * number + 1 < expansion.nodes(level + 1) as u64 {
                    let (free, emptied) = lowered.place()?;
                    (place, after) = (Some(free), emptied);
                }
                let work = Work::Substitution { level: level - top };
                let node = lowered.add(Node { work, key, operands: vec![made], place, after });
                let mut children = vec![(level + 1, 2 * number, Operand { node, place: made.place })];
                children.extend(place.map(|place| (level + 1, 2 * number + 1, Operand { node, place })));
                match self.order {
                    Order::Bfs => open.extend(children),
                    Order::Dfs => children.into_iter().rev().for_each(|child| open.push_front(child)),
                }
            }
        }
        lowered.graph()
    }
}

/// Returns the levels of a tree with `leaves` leaves.
pub fn levels(leaves: u64) -> u32 {
    leaves.max(1).next_power_of_two().ilog2()
}

/// Returns the traffic of assembling the selectors of `bits` bits. Half of the rows of an RGSW
/// ciphertext are leaves, the other half are their external products with the RGSW encryption of
/// the secret. The ciphertext is written in one piece.
pub fn assembly_traffic(scheme: &Scheme, bits: u64) -> Traffic {
    let rows = bits * scheme.gadget_levels;
    Traffic { loads: rows, stores: 2 * rows, key_bytes: scheme.rgsw_bytes() }
}

/// Lowers the assembly of selectors from `leaves` leaves: leaf i is stored as row 2i, its product
/// as row 2i + 1.
///
/// # Errors
/// [`IveError::RegisterFile`] if the key and two ciphertexts do not fit.
pub fn lower_assembly(arch: &Arch, digits: Digits, leaves: u64) -> Result<Graph, IveError> {
    let schedule = Schedule { step: Step::ColTor, order: Order::Dfs, digits, depth: 1 };
    let mut lowered = Lowering::new(&schedule, arch, 1)?;
    for leaf in 0..leaves {
        let row = lowered.load(leaf)?;
        let (place, after) = lowered.place()?;
        let (work, key) = (Work::Assembly, Some(lowered.key(0)));
        let node = lowered.add(Node { work, key, operands: vec![row], place: Some(place), after });
        lowered.store_read(row, 2 * leaf, vec![Event::read(node)]);
        lowered.store(Operand { node, place }, 2 * leaf + 1);
    }
    lowered.graph()
}

/// Graph under construction, with the free places of the register file and the events that emptied
/// them.
pub(crate) struct Lowering<'a> {
    schedule: &'a Schedule,
    arch: &'a Arch,
    nodes: Vec<Node>,
    places: Places,
    /// Loaded keys of the levels: the first operation that needs a key has it loaded.
    keys: Vec<Option<Operand>>,
    free: VecDeque<(usize, Vec<Event>)>,
}

impl<'a> Lowering<'a> {
    pub fn new(schedule: &'a Schedule, arch: &'a Arch, levels: u32) -> Result<Self, IveError> {
        let places = schedule.places(arch)?;
        let free = (0..places.ciphertexts).map(|place| (place, Vec::new())).collect();
        Ok(Self { schedule, arch, nodes: Vec::new(), places, keys: vec![None; levels as usize], free })
    }

    /// Returns the key of a level, in the place of that number. Keys are loaded when they are
    /// needed, between the ciphertexts: the first operations of a layer need not wait for the keys
    /// of all its levels.
    pub fn key(&mut self, level: u32) -> Operand {
        let place = level as usize;
        if let Some(loaded) = self.keys[place] {
            return loaded;
        }
        let work = Work::LoadKey { level };
        let node =
            self.add(Node { work, key: None, operands: Vec::new(), place: Some(place), after: Vec::new() });
        *self.keys[place].insert(Operand { node, place })
    }

    pub fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Returns a free place, and the events that must happen before it is filled. The place that
    /// was emptied first is returned first, so that loads run ahead as far as there are places.
    pub fn place(&mut self) -> Result<(usize, Vec<Event>), IveError> {
        self.free.pop_front().ok_or_else(|| IveError::RegisterFile {
            file: self.arch.file.clone(),
            schedule: format!("{:?}", self.schedule),
            needed: self.schedule.working_set(&self.arch.scheme) + self.arch.scheme.ciphertext_bytes(),
            available: self.arch.core.register_file_kb * 1024,
            remedy: "give subtrees fewer levels".into(),
        })
    }

    pub fn load(&mut self, index: u64) -> Result<Operand, IveError> {
        let (place, after) = self.place()?;
        let work = Work::LoadCiphertext { index };
        let node = self.add(Node { work, key: None, operands: Vec::new(), place: Some(place), after });
        Ok(Operand { node, place })
    }

    pub fn store(&mut self, made: Operand, index: u64) {
        self.store_read(made, index, Vec::new());
    }

    /// Stores a ciphertext that other operations read too, and empties its place after all of them.
    pub fn store_read(&mut self, made: Operand, index: u64, mut when: Vec<Event>) {
        let work = Work::StoreCiphertext { index };
        let (operands, after) = (vec![made], Vec::new());
        when.push(Event::over(self.add(Node { work, key: None, operands, place: None, after })));
        self.empty(made.place, when);
    }

    /// Empties a place when all events of `when` have happened.
    pub fn empty(&mut self, place: usize, when: Vec<Event>) {
        self.free.push_back((place, when));
    }

    pub fn graph(self) -> Result<Graph, IveError> {
        Graph::new(self.nodes, self.places)
    }

    fn merge(&mut self, level: u32, x: Operand, y: Operand) -> Operand {
        let key = Some(self.key(level));
        let node =
            self.add(Node { work: Work::Product, key, operands: vec![x, y], place: None, after: Vec::new() });
        self.empty(y.place, vec![Event::read(node)]);
        Operand { node, place: x.place }
    }

    fn tournament_depth_first(&mut self, leaves: Range<u64>) -> Result<Operand, IveError> {
        let mut stack: Vec<(u32, Operand)> = Vec::new();
        for leaf in leaves {
            let mut top = (0, self.load(leaf)?);
            while let Some((rank, x)) = stack.pop_if(|(rank, _)| *rank == top.0) {
                top = (rank + 1, self.merge(rank, x, top.1));
            }
            stack.push(top);
        }
        // A remainder without a partner meets the next larger subtree.
        let mut root = stack.pop().map(|(_, root)| root);
        while let (Some(y), Some((rank, x))) = (root, stack.pop()) {
            root = Some(self.merge(rank, x, y));
        }
        root.ok_or_else(|| IveError::Graph {
            node: self.nodes.len(),
            problem: "a subtree without leaves".into(),
            remedy: "lower a layer with at least one row".into(),
        })
    }

    fn tournament_by_levels(&mut self, leaves: Range<u64>) -> Result<Operand, IveError> {
        let mut row = leaves.map(|leaf| self.load(leaf)).collect::<Result<Vec<_>, _>>()?;
        let mut level = 0;
        while row.len() > 1 {
            let winner = |pair: &[Operand]| match pair {
                [x, y] => self.merge(level, *x, *y),
                alone => alone[0],
            };
            row = row.chunks(2).map(winner).collect();
            level += 1;
        }
        Ok(row[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_those_that_fit() {
        let arch = Arch::ive().unwrap();
        let depth = |step, order, digits| Schedule::deepest(&arch, step, order, digits).unwrap().depth;
        for (step, depths) in [(Step::ColTor, [2, 2, 3]), (Step::Expand, [3, 5, 5])] {
            let found = [
                depth(step, Order::Bfs, Digits::Stored),
                depth(step, Order::Dfs, Digits::Stored),
                depth(step, Order::Dfs, Digits::Forwarded),
            ];
            assert_eq!(found, depths, "{step:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error_that_names_file_key_and_remedy() {
        let mut arch = Arch::ive().unwrap();
        let schedule =
            Schedule { step: Step::ColTor, order: Order::Dfs, digits: Digits::Forwarded, depth: 4 };
        for refused in [
            schedule.check(&arch).unwrap_err(),
            schedule.lower_tournament(&arch, 4, 16).unwrap_err(),
            Schedule { depth: 0, ..schedule }.check(&arch).unwrap_err(),
        ] {
            let said = refused.to_string();
            assert!(said.starts_with("sim/ive/arch.toml: core.register_file_kb: "), "{said}");
            assert!(said.contains("fewer levels"), "{said}");
        }
        arch.core.register_file_kb = 1024;
        assert!(Schedule::deepest(&arch, Step::ColTor, Order::Dfs, Digits::Forwarded).is_err());
    }

    #[test]
    fn graphs_move_what_the_closed_form_says() {
        let arch = Arch::ive().unwrap();
        let scheme = &arch.scheme;
        for (order, digits) in
            [(Order::Bfs, Digits::Stored), (Order::Dfs, Digits::Stored), (Order::Dfs, Digits::Forwarded)]
        {
            let schedule = Schedule::deepest(&arch, Step::ColTor, order, digits).unwrap();
            for rows in [1 << 9, 300, 1] {
                let (mut traffic, mut products) = (Traffic::default(), 0);
                for layer in schedule.layers(rows) {
                    let graph = schedule.lower_tournament(&arch, layer.levels, layer.loads).unwrap();
                    traffic = traffic.plus(counted(&graph, schedule.key_bytes(scheme)));
                    products += graph.count(|work| work == Work::Product);
                }
                assert_eq!((traffic, products), (schedule.traffic(scheme, rows), rows - 1));
            }

            let schedule = Schedule::deepest(&arch, Step::Expand, order, digits).unwrap();
            for leaves in [512, 316, 257, 1] {
                let expansion = Expansion::covering(leaves as usize);
                let (mut traffic, mut substitutions, mut top) = (Traffic::default(), 0, 0);
                for layer in schedule.layers(leaves) {
                    let graph = schedule.lower_expansion(&arch, expansion, top, layer.levels).unwrap();
                    traffic = traffic.plus(counted(&graph, schedule.key_bytes(scheme)));
                    substitutions += graph.count(|work| matches!(work, Work::Substitution { .. }));
                    top += layer.levels;
                }
                assert_eq!(traffic, schedule.traffic(scheme, leaves), "{leaves} {schedule:?}");
                assert_eq!(substitutions, expansion.substitutions() as u64);
            }
        }
        let graph = lower_assembly(&arch, Digits::Forwarded, 60).unwrap();
        assert_eq!(counted(&graph, scheme.rgsw_bytes()), assembly_traffic(scheme, 12));
    }

    fn counted(graph: &Graph, key_bytes: u64) -> Traffic {
        Traffic {
            loads: graph.count(|work| matches!(work, Work::LoadCiphertext { .. })),
            stores: graph.count(|work| matches!(work, Work::StoreCiphertext { .. })),
            key_bytes: graph.count(|work| matches!(work, Work::LoadKey { .. })) * key_bytes,
        }
    }

    #[test]
    fn the_baseline_is_the_closed_form_of_the_whole_tree() {
        let arch = Arch::ive().unwrap();
        let traffic = Schedule::baseline(&arch, Step::ColTor).unwrap().traffic(&arch.scheme, 1 << 12);
        assert_eq!(traffic.loads + traffic.stores, 3 * ((1 << 12) - 1));
        assert_eq!(traffic.key_bytes, 12 * arch.scheme.rgsw_bytes());
    }
}
