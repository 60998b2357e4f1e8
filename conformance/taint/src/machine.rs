//! Instance of a module: runs it, and reports where control flow or addresses depend on a secret.

use std::collections::{BTreeMap, BTreeSet};

use crate::function::Function;
use crate::instruction::{Access, Instruction as I, Target};
use crate::lanes;
use crate::marked::{Marked, Width};
use crate::memory::{Memory, OutOfBounds};
use crate::module::Module;

/// Name of the function that ends marks in the client's code.
const DECLASSIFIED: &str = "spirea_math::secret::declassified";
/// Maximum number of open calls.
const MOST_CALLS: usize = 10_000;

/// Effect of a secret on the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Steering {
    /// The secret decides the next instruction: `if`, `br_if`, `br_table`.
    Branch,
    /// The secret decides the called function.
    Call,
    /// The secret is the address of a load or a store, or the length of a copy.
    Address,
    /// The secret is an operand of a division, whose time depends on the operands.
    Division,
    /// The secret leaves the instance at a point where only public values may leave.
    Export,
}

impl std::fmt::Display for Steering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Branch => "a branch depends on a secret",
            Self::Call => "the choice of a function depends on a secret",
            Self::Address => "an address or a length depends on a secret",
            Self::Division => "a division has a secret operand",
            Self::Export => "a secret leaves the module where it should not",
        })
    }
}

/// Reason for the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trap {
    /// `unreachable`, which ends a panic.
    #[error("the module panicked")]
    Unreachable,
    /// Division by zero, or with a quotient that is too large.
    #[error("a division has no quotient")]
    Division,
    /// Call of a table element that is not a function of the expected type.
    #[error("a call of what is no such function")]
    BadCall,
    /// Too many open calls.
    #[error("the calls are nested too deep")]
    TooDeep,
    /// Access outside the memory.
    #[error(transparent)]
    Memory(#[from] OutOfBounds),
    /// Missing export of the module, or missing import of the host.
    #[error("there is no function {0}")]
    Missing(String),
}

/// The environment, which provides the functions that the module imports.
pub trait Surroundings {
    /// Calls the import; returns its result, if it has one.
    ///
    /// # Errors
    /// [`Trap`] if the import is missing or the operands are wrong.
    fn call(&mut self, name: &str, operands: &[Marked], memory: &mut Memory) -> Result<Option<Marked>, Trap>;
}

/// Places where a secret has an effect, with the effect and the open calls at its first occurrence.
pub type Found = BTreeMap<(u64, Steering), Vec<String>>;

/// Instance of a module.
pub struct Machine<'m, S> {
    /// The linear memory.
    pub memory: Memory,
    /// Places where a secret has an effect.
    pub found: Found,
    /// Reasons for which marks were ended.
    pub reasons: BTreeSet<String>,
    /// Reason for which marks are kept instead of ended.
    pub kept: Option<String>,
    /// Number of executed instructions.
    pub steps: u64,
    /// Places of `select` with a secret condition.
    pub selects: BTreeSet<u64>,
    module: &'m Module,
    surroundings: S,
    globals: Vec<Marked>,
    operands: Vec<Marked>,
    declassified: Option<u32>,
    /// Open calls: the function, and its next instruction.
    calls: Vec<Call>,
    /// Current instruction of the innermost call.
    at: usize,
}

/// An open call.
#[derive(Clone, Copy)]
struct Call {
    /// Index of the function, without the imported ones.
    function: usize,
    next: usize,
    /// Index of its first local.
    locals: usize,
}

impl<'m, S: Surroundings> Machine<'m, S> {
    /// Creates an instance, with its data in memory.
    ///
    /// # Errors
    /// [`Trap`] if the data lies outside the memory.
    pub fn new(module: &'m Module, surroundings: S) -> Result<Self, Trap> {
        let mut memory = Memory::new(module.pages);
        for (start, bytes) in &module.data {
            memory.write(*start, bytes, &vec![0; bytes.len()])?;
        }
        let mut own = module.imports.len() as u32..module.type_of.len() as u32;
        let declassified = own.find(|&function| module.name(function) == DECLASSIFIED);
        Ok(Self {
            memory,
            found: Found::new(),
            reasons: BTreeSet::new(),
            kept: None,
            steps: 0,
            selects: BTreeSet::new(),
            module,
            surroundings,
            globals: module.globals.clone(),
            operands: Vec::new(),
            declassified,
            calls: Vec::new(),
            at: 0,
        })
    }

    /// Calls an export with public numbers; returns its result, which must be public.
    ///
    /// # Errors
    /// [`Trap`]
    pub fn call(&mut self, export: &str, operands: &[u32]) -> Result<u32, Trap> {
        let function = *self.module.exports.get(export).ok_or_else(|| Trap::Missing(export.into()))?;
        self.operands.clear();
        self.calls.clear();
        self.operands.extend(operands.iter().map(|&operand| Marked::public(operand)));
        self.enter(function)?;
        self.run()?;
        let result = self.operands.pop().unwrap_or_default();
        if result.is_secret() {
            self.found.insert((0, Steering::Export), vec![format!("the result of {export}")]);
        }
        Ok(result.value as u32)
    }

    /// Returns the names of the open functions, the innermost first.
    pub fn backtrace(&self) -> Vec<String> {
        let own = |call: &Call| self.module.name((call.function + self.module.imports.len()) as u32);
        self.calls.iter().rev().map(own).collect()
    }

    fn function(&self, call: Call) -> &'m Function {
        &self.module.functions[call.function]
    }

    fn pop(&mut self) -> Marked {
        self.operands.pop().expect("the module is valid")
    }

    #[cold]
    fn steers(&mut self, steering: Steering) {
        let call = *self.calls.last().expect("an instruction is of a function");
        let offset = self.function(call).offsets[self.at];
        if !self.found.contains_key(&(offset, steering)) {
            let calls = self.backtrace();
            self.found.insert((offset, steering), calls);
        }
    }

    /// Returns a number on which control flow or an address depends, and records the effect if it
    /// is secret.
    fn steering(&mut self, value: Marked, steering: Steering) -> u32 {
        if value.is_secret() {
            self.steers(steering);
        }
        value.value as u32
    }

    fn condition(&mut self) -> bool {
        let condition = self.pop();
        if condition.is_zero_secret() {
            self.steers(Steering::Branch);
        }
        condition.value != 0
    }

    fn address(&mut self, base: Marked, access: Access) -> usize {
        self.steering(base, Steering::Address) as usize + access.offset as usize
    }

    /// Sets the next instruction of the innermost call.
    fn go_on_at(&mut self, next: usize) {
        self.calls.last_mut().expect("a call is open").next = next;
    }

    /// Enters a function, whose parameters are the last operands.
    fn enter(&mut self, function: u32) -> Result<(), Trap> {
        if Some(function) == self.declassified {
            return self.declassify();
        }
        let Some(own) = (function as usize).checked_sub(self.module.imports.len()) else {
            return self.call_import(function);
        };
        if self.calls.len() == MOST_CALLS {
            return Err(Trap::TooDeep);
        }
        let Function { signature, locals, .. } = &self.module.functions[own];
        let first = self.operands.len() - signature.params as usize;
        self.operands.resize(self.operands.len() + *locals as usize, Marked::default());
        self.calls.push(Call { function: own, next: 0, locals: first });
        Ok(())
    }

    fn call_import(&mut self, function: u32) -> Result<(), Trap> {
        let of = self.module.types[self.module.type_of[function as usize] as usize];
        let first = self.operands.len() - of.params as usize;
        if self.operands[first..].iter().any(|operand| operand.is_secret()) {
            self.steers(Steering::Export);
        }
        let name = &self.module.imports[function as usize];
        let result = self.surroundings.call(name, &self.operands[first..], &mut self.memory)?;
        self.operands.truncate(first);
        self.operands.extend(result);
        Ok(())
    }

    /// Ends the marks of bytes. The operands are their address, their number, and the reason.
    fn declassify(&mut self) -> Result<(), Trap> {
        let [why_bytes, why, bytes, start] = std::array::from_fn(|_| self.pop());
        let [why_bytes, why, bytes, start] =
            [why_bytes, why, bytes, start].map(|operand| self.steering(operand, Steering::Address) as usize);
        let why = String::from_utf8_lossy(self.memory.read(why, why_bytes)?.0).into_owned();
        if self.memory.read(start, bytes)?.1.iter().all(|&marks| marks == 0) {
            return Ok(());
        }
        if self.kept.as_ref() != Some(&why) {
            self.memory.unmark(start, bytes)?;
        }
        self.reasons.insert(why);
        Ok(())
    }

    /// Moves the operands that a jump keeps to their place at its target.
    fn jump(&mut self, locals: usize, function: &Function, target: Target) -> usize {
        let base = locals + (function.signature.params + function.locals) as usize + target.below as usize;
        let kept = self.operands.len() - target.kept as usize;
        if kept > base {
            self.operands.copy_within(kept.., base);
            self.operands.truncate(base + target.kept as usize);
        }
        target.to as usize
    }

    /// Runs until the outermost call returns.
    fn run(&mut self) -> Result<(), Trap> {
        'calls: while let Some(&call) = self.calls.last() {
            let (function, locals) = (self.function(call), call.locals);
            let mut next = call.next;
            loop {
                let instruction = function.code[next];
                next += 1;
                self.steps += 1;
                self.at = next - 1;
                match instruction {
                    I::Unreachable => return Err(Trap::Unreachable),
                    I::Jump(target) => next = self.jump(locals, function, target),
                    I::JumpIf(target) => {
                        if self.condition() {
                            next = self.jump(locals, function, target);
                        }
                    }
                    I::JumpIfZero(target) => {
                        if !self.condition() {
                            next = self.jump(locals, function, target);
                        }
                    }
                    I::JumpTable(first, count) => {
                        let index = self.pop();
                        let index = self.steering(index, Steering::Branch).min(count - 1);
                        let target = function.targets[(first + index) as usize];
                        next = self.jump(locals, function, target);
                    }
                    I::Return => {
                        let results = self.operands.len() - function.signature.results as usize;
                        self.operands.copy_within(results.., locals);
                        self.operands.truncate(locals + function.signature.results as usize);
                        self.calls.pop();
                        continue 'calls;
                    }
                    I::Call(callee) => {
                        self.go_on_at(next);
                        self.enter(callee)?;
                        continue 'calls;
                    }
                    I::CallIndirect(of) => {
                        let place = self.pop();
                        let place = self.steering(place, Steering::Call) as usize;
                        let callee = self.module.table.get(place).copied().flatten().ok_or(Trap::BadCall)?;
                        let types = &self.module.types;
                        if types[self.module.type_of[callee as usize] as usize] != types[of as usize] {
                            return Err(Trap::BadCall);
                        }
                        self.go_on_at(next);
                        self.enter(callee)?;
                        continue 'calls;
                    }
                    I::LocalGet(local) => self.operands.push(self.operands[locals + local as usize]),
                    I::LocalSet(local) => {
                        let value = self.pop();
                        self.operands[locals + local as usize] = value;
                    }
                    I::LocalTee(local) => {
                        let value = *self.operands.last().expect("the module is valid");
                        self.operands[locals + local as usize] = value;
                    }
                    other => self.step(function, other)?,
                }
            }
        }
        Ok(())
    }

    /// Executes an instruction that is not a jump.
    fn step(&mut self, function: &Function, instruction: I) -> Result<(), Trap> {
        match instruction {
            I::Drop => {
                self.pop();
            }
            I::Select => {
                let (condition, other, first) = (self.pop(), self.pop(), self.pop());
                if condition.is_zero_secret() {
                    self.note_select();
                }
                self.operands.push(first.selected(other, condition));
            }
            I::Const(bits) => self.operands.push(Marked::public(bits)),
            I::ConstVector(number) => self.operands.push(Marked::public(function.vectors[number as usize])),
            I::GlobalGet(global) => self.operands.push(self.globals[global as usize]),
            I::GlobalSet(global) => self.globals[global as usize] = self.pop(),
            I::Load(access) => {
                let base = self.pop();
                let start = self.address(base, access);
                let value = self.memory.load(start, access.bytes.into())?;
                let of = Width(u32::from(access.bytes) * 8);
                self.operands.push(access.signed_to.map_or(value, |to| value.extended(of, to)));
            }
            I::Store(access) => {
                let (value, base) = (self.pop(), self.pop());
                let start = self.address(base, access);
                self.memory.store(start, access.bytes.into(), value)?;
            }
            I::MemorySize => self.operands.push(Marked::public(self.memory.pages() as u64)),
            I::MemoryGrow => {
                let pages = self.pop();
                let pages = self.steering(pages, Steering::Address) as usize;
                let before = self.memory.pages() as u32;
                let grown = self.memory.grow(pages);
                self.operands.push(Marked::public(if grown { before } else { u32::MAX }));
            }
            I::MemoryCopy | I::MemoryFill => {
                let (length, middle, to) = (self.pop(), self.pop(), self.pop());
                let length = self.steering(length, Steering::Address) as usize;
                let to = self.steering(to, Steering::Address) as usize;
                if instruction == I::MemoryFill {
                    self.memory.fill(to, length, middle)?;
                } else {
                    let from = self.steering(middle, Steering::Address) as usize;
                    self.memory.copy(to, from, length)?;
                }
            }
            I::Binary(operation, width) => {
                let (b, a) = (self.pop(), self.pop());
                if operation.is_division() && (a.is_secret() || b.is_secret()) {
                    self.steers(Steering::Division);
                }
                self.operands.push(operation.apply(width, a, b).ok_or(Trap::Division)?);
            }
            I::FloatBinary(operation) => {
                let (b, a) = (self.pop(), self.pop());
                if operation.is_division() && (a.is_secret() || b.is_secret()) {
                    self.steers(Steering::Division);
                }
                self.operands.push(operation.apply(a, b));
            }
            I::FloatUnary(operation) => {
                let a = self.pop();
                if operation.is_division() && a.is_secret() {
                    self.steers(Steering::Division);
                }
                self.operands.push(operation.apply(a));
            }
            I::Unary(operation, width) => self.unary(|a| operation.apply(width, a)),
            I::Wrap(width) => self.unary(|a| a.truncated(width)),
            I::Extend(from, to) => self.unary(|a| a.extended(from, to)),
            I::Splat(width) => self.unary(|a| lanes::splat(width, a)),
            I::ExtractLane(start, width) => self.unary(|a| a.bits(start, width)),
            I::AllTrue(width) => self.unary(|a| lanes::all_true(width, a)),
            I::Bitmask(width) => self.unary(|a| lanes::bitmask(width, a)),
            I::AnyTrue => self.unary(lanes::any_true),
            I::ReplaceLane(start, width) => self.binary(|a, b| a.with_bits(start, width, b)),
            I::Shuffle(number) => {
                let places = function.vectors[number as usize].to_le_bytes();
                self.binary(|a, b| lanes::shuffled(places, a, b));
            }
            I::EqualLanes(width) => self.binary(|a, b| lanes::equal(width, a, b)),
            I::Lanes(operation, width) => self.binary(|a, b| lanes::zipped(operation, width, a, b)),
            I::ShiftLanes(operation, width) => self.binary(|a, b| lanes::shifted(operation, width, a, b)),
            _ => unreachable!("`run` has the other instructions"),
        }
        Ok(())
    }

    #[cold]
    fn note_select(&mut self) {
        let call = *self.calls.last().expect("an instruction is of a function");
        self.selects.insert(self.function(call).offsets[self.at]);
    }

    fn unary(&mut self, of: impl FnOnce(Marked) -> Marked) {
        let a = self.pop();
        self.operands.push(of(a));
    }

    fn binary(&mut self, of: impl FnOnce(Marked, Marked) -> Marked) {
        let (b, a) = (self.pop(), self.pop());
        self.operands.push(of(a, b));
    }
}

#[cfg(test)]
mod tests;
