//! Translation of a function's operators to instructions.

use wasmparser::{BlockType, FunctionBody, MemArg, Operator};

use crate::error::ModuleError;
use crate::floats::{FloatBinary as FB, FloatUnary as FU};
use crate::function::{Function, Signature};
use crate::instruction::{Access, Instruction as I, Target};
use crate::marked::{Binary as B, Unary as U, Width};

const W8: Width = Width(8);
const W16: Width = Width(16);
const W32: Width = Width(32);
const W64: Width = Width(64);
const W128: Width = Width(128);

/// Parts of the module that a translation needs.
pub struct Context<'m> {
    /// Types of functions.
    pub types: &'m [Signature],
    /// Type of every function.
    pub functions: &'m [u32],
}

/// An open block.
struct Block {
    /// Number of operands below its parameters.
    below: u32,
    /// Number of operands that a jump to it keeps.
    kept: u32,
    results: u32,
    /// First instruction, if the block is a loop.
    start: Option<u32>,
    /// Jumps to its end, whose target is still unknown.
    pending: Vec<Pending>,
    /// Index of an `if`'s jump to its `else`.
    if_zero: Option<usize>,
}

/// Location of a target that is still unknown.
#[derive(Clone, Copy)]
enum Pending {
    Instruction(usize),
    Table(usize),
}

struct Translation<'m> {
    context: &'m Context<'m>,
    function: Function,
    blocks: Vec<Block>,
    /// Current number of operands.
    height: u32,
    /// Number of open blocks within unreachable code; `None` in reachable code.
    dead: Option<u32>,
}

/// Translates a function's body.
///
/// # Errors
/// [`ModuleError`] if the body has an operator that is not in [`I`].
pub fn translate(
    context: &Context<'_>,
    signature: Signature,
    body: &FunctionBody<'_>,
) -> Result<Function, ModuleError> {
    let mut locals = 0;
    for local in body.get_locals_reader()? {
        locals += local?.0;
    }
    let function = Function { signature, locals, ..Function::default() };
    let mut translation = Translation { context, function, blocks: Vec::new(), height: 0, dead: None };
    translation.open(0, signature.results, None);
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        let offset = operators.original_position();
        let operator = operators.read()?;
        translation.operator(&operator)?;
        let count = translation.function.code.len();
        translation.function.offsets.resize(count, offset);
    }
    Ok(translation.function)
}

impl Translation<'_> {
    fn here(&self) -> u32 {
        self.function.code.len() as u32
    }

    /// Appends an instruction that takes and gives these numbers of operands.
    fn emit(&mut self, takes: u32, gives: u32, instruction: I) {
        self.height = self.height + gives - takes;
        self.function.code.push(instruction);
    }

    fn open(&mut self, takes: u32, results: u32, start: Option<u32>) {
        let kept = if start.is_some() { takes } else { results };
        let below = self.height - takes;
        self.blocks.push(Block { below, kept, results, start, pending: Vec::new(), if_zero: None });
    }

    fn block_type(&self, block: BlockType) -> (u32, u32) {
        match block {
            BlockType::Empty => (0, 0),
            BlockType::Type(_) => (0, 1),
            BlockType::FuncType(index) => {
                let Signature { params, results } = self.context.types[index as usize];
                (params, results)
            }
        }
    }

    /// Returns the target of a jump out of `depth` blocks. If the block's end is still unknown,
    /// `place` is set later.
    fn target(&mut self, depth: u32, place: Pending) -> Target {
        let last = self.blocks.len() - 1;
        let block = &mut self.blocks[last - depth as usize];
        if block.start.is_none() {
            block.pending.push(place);
        }
        Target { to: block.start.unwrap_or(0), below: block.below, kept: block.kept }
    }

    /// Marks the code from here to the block's end as unreachable.
    fn die(&mut self) {
        self.dead = Some(0);
    }

    fn settle(&mut self, place: Pending, to: u32) {
        match place {
            Pending::Table(index) => self.function.targets[index].to = to,
            Pending::Instruction(index) => match &mut self.function.code[index] {
                I::Jump(target) | I::JumpIf(target) | I::JumpIfZero(target) => target.to = to,
                _ => unreachable!("only jumps wait for the end of a block"),
            },
        }
    }

    fn end(&mut self) {
        let block = self.blocks.pop().expect("a block is open");
        let here = self.here();
        let skipped = block.if_zero.map(Pending::Instruction);
        block.pending.iter().copied().chain(skipped).for_each(|place| self.settle(place, here));
        self.height = block.below + block.results;
        self.dead = None;
        if self.blocks.is_empty() {
            self.function.code.push(I::Return);
        }
    }

    fn otherwise(&mut self) {
        let here = self.here();
        if self.dead.is_none() {
            let target = self.target(0, Pending::Instruction(here as usize));
            self.function.code.push(I::Jump(target));
        }
        let block = self.blocks.last_mut().expect("an `if` is open");
        let skipped = block.if_zero.take().expect("`else` follows `if`");
        self.height = block.below;
        self.dead = None;
        let here = self.here();
        self.settle(Pending::Instruction(skipped), here);
    }

    fn operator(&mut self, operator: &Operator<'_>) -> Result<(), ModuleError> {
        if let Some(depth) = self.dead {
            match operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                    self.dead = Some(depth + 1);
                }
                Operator::End if depth > 0 => self.dead = Some(depth - 1),
                Operator::End => self.end(),
                Operator::Else if depth == 0 => self.otherwise(),
                _ => {}
            }
            return Ok(());
        }
        if !self.control(operator) && !self.memory(operator) {
            let (takes, instruction) = self.plain(operator)?;
            self.emit(takes, 1, instruction);
        }
        Ok(())
    }

    /// Translates an operator of control, of locals or of calls; returns false for other operators.
    fn control(&mut self, operator: &Operator<'_>) -> bool {
        let place = self.function.code.len();
        match *operator {
            Operator::Nop => {}
            Operator::Block { blockty } => {
                let (takes, results) = self.block_type(blockty);
                self.open(takes, results, None);
            }
            Operator::Loop { blockty } => {
                let (takes, results) = self.block_type(blockty);
                self.open(takes, results, Some(self.here()));
            }
            Operator::If { blockty } => {
                let (takes, results) = self.block_type(blockty);
                self.emit(1, 0, I::JumpIfZero(Target::default()));
                self.open(takes, results, None);
                let block = self.blocks.last_mut().expect("it was opened");
                block.if_zero = Some(place);
                let target = Target { to: 0, below: block.below, kept: takes };
                self.function.code[place] = I::JumpIfZero(target);
            }
            Operator::Else => self.otherwise(),
            Operator::End => self.end(),
            Operator::Br { relative_depth } => {
                let target = self.target(relative_depth, Pending::Instruction(place));
                self.emit(0, 0, I::Jump(target));
                self.die();
            }
            Operator::BrIf { relative_depth } => {
                let target = self.target(relative_depth, Pending::Instruction(place));
                self.emit(1, 0, I::JumpIf(target));
            }
            Operator::BrTable { ref targets } => {
                let first = self.function.targets.len();
                let depths = targets.targets().chain([Ok(targets.default())]);
                for depth in depths.map(|depth| depth.expect("the operator was read")) {
                    let index = self.function.targets.len();
                    let target = self.target(depth, Pending::Table(index));
                    self.function.targets.push(target);
                }
                let count = self.function.targets.len() - first;
                self.emit(1, 0, I::JumpTable(first as u32, count as u32));
                self.die();
            }
            Operator::Return => {
                self.emit(0, 0, I::Return);
                self.die();
            }
            Operator::Unreachable => {
                self.emit(0, 0, I::Unreachable);
                self.die();
            }
            Operator::Call { function_index } => {
                let of = self.context.functions[function_index as usize];
                let Signature { params, results } = self.context.types[of as usize];
                self.emit(params, results, I::Call(function_index));
            }
            Operator::CallIndirect { type_index, .. } => {
                let Signature { params, results } = self.context.types[type_index as usize];
                self.emit(params + 1, results, I::CallIndirect(type_index));
            }
            Operator::Drop => self.emit(1, 0, I::Drop),
            Operator::LocalGet { local_index } => self.emit(0, 1, I::LocalGet(local_index)),
            Operator::LocalSet { local_index } => self.emit(1, 0, I::LocalSet(local_index)),
            Operator::LocalTee { local_index } => self.emit(1, 1, I::LocalTee(local_index)),
            Operator::GlobalGet { global_index } => self.emit(0, 1, I::GlobalGet(global_index)),
            Operator::GlobalSet { global_index } => self.emit(1, 0, I::GlobalSet(global_index)),
            // Reinterpreting numbers keeps their bits.
            Operator::I32ReinterpretF32
            | Operator::F32ReinterpretI32
            | Operator::I64ReinterpretF64
            | Operator::F64ReinterpretI64
            | Operator::I64ExtendI32U => {}
            _ => return false,
        }
        true
    }

    /// Translates a memory access; returns false for other operators.
    fn memory(&mut self, operator: &Operator<'_>) -> bool {
        let access = |memarg: MemArg, bytes, signed_to| {
            // Memories have addresses of 32 bits, so offsets have 32 bits too.
            Access { bytes, signed_to, offset: memarg.offset as u32 }
        };
        let (memarg, bytes, signed_to) = match *operator {
            Operator::I32Load { memarg } | Operator::F32Load { memarg } | Operator::I64Load32U { memarg } => {
                (memarg, 4, None)
            }
            Operator::I64Load { memarg } | Operator::F64Load { memarg } => (memarg, 8, None),
            Operator::I32Load8U { memarg } | Operator::I64Load8U { memarg } => (memarg, 1, None),
            Operator::I32Load16U { memarg } | Operator::I64Load16U { memarg } => (memarg, 2, None),
            Operator::I32Load8S { memarg } => (memarg, 1, Some(W32)),
            Operator::I32Load16S { memarg } => (memarg, 2, Some(W32)),
            Operator::I64Load8S { memarg } => (memarg, 1, Some(W64)),
            Operator::I64Load16S { memarg } => (memarg, 2, Some(W64)),
            Operator::I64Load32S { memarg } => (memarg, 4, Some(W64)),
            Operator::V128Load { memarg } => (memarg, 16, None),
            _ => return self.store(operator),
        };
        self.emit(1, 1, I::Load(access(memarg, bytes, signed_to)));
        true
    }

    fn store(&mut self, operator: &Operator<'_>) -> bool {
        let (memarg, bytes) = match *operator {
            Operator::I32Store8 { memarg } | Operator::I64Store8 { memarg } => (memarg, 1),
            Operator::I32Store16 { memarg } | Operator::I64Store16 { memarg } => (memarg, 2),
            Operator::I32Store { memarg }
            | Operator::F32Store { memarg }
            | Operator::I64Store32 { memarg } => (memarg, 4),
            Operator::I64Store { memarg } | Operator::F64Store { memarg } => (memarg, 8),
            Operator::V128Store { memarg } => (memarg, 16),
            Operator::MemorySize { .. } => {
                self.emit(0, 1, I::MemorySize);
                return true;
            }
            Operator::MemoryGrow { .. } => {
                self.emit(1, 1, I::MemoryGrow);
                return true;
            }
            Operator::MemoryCopy { .. } => {
                self.emit(3, 0, I::MemoryCopy);
                return true;
            }
            Operator::MemoryFill { .. } => {
                self.emit(3, 0, I::MemoryFill);
                return true;
            }
            _ => return false,
        };
        self.emit(2, 0, I::Store(Access { bytes, signed_to: None, offset: memarg.offset as u32 }));
        true
    }

    fn vector(&mut self, bits: u128) -> u32 {
        self.function.vectors.push(bits);
        self.function.vectors.len() as u32 - 1
    }

    /// Returns the number of operands of an operator, and its instruction, which gives one result.
    fn plain(&mut self, operator: &Operator<'_>) -> Result<(u32, I), ModuleError> {
        use Operator as O;
        let constant = |bits| (0, I::Const(bits));
        let unary = |operation, width| (1, I::Unary(operation, width));
        let binary = |operation, width| (2, I::Binary(operation, width));
        let float = |operation| (1, I::FloatUnary(operation));
        let floats = |operation| (2, I::FloatBinary(operation));
        let lanes = |operation, width| (2, I::Lanes(operation, width));
        let shift = |operation, width| (2, I::ShiftLanes(operation, width));
        Ok(match *operator {
            O::I32Const { value } => constant(value as u32 as u64),
            O::I64Const { value } => constant(value as u64),
            O::F32Const { value } => constant(value.bits().into()),
            O::F64Const { value } => constant(value.bits()),
            O::V128Const { value } => (0, I::ConstVector(self.vector(value.i128() as u128))),
            O::Select => (3, I::Select),
            O::I32Eqz => unary(U::Eqz, W32),
            O::I64Eqz => unary(U::Eqz, W64),
            O::I32Clz => unary(U::Clz, W32),
            O::I64Clz => unary(U::Clz, W64),
            O::I32Ctz => unary(U::Ctz, W32),
            O::I64Ctz => unary(U::Ctz, W64),
            O::I32Popcnt => unary(U::Popcnt, W32),
            O::I64Popcnt => unary(U::Popcnt, W64),
            O::I32Eq => binary(B::Eq, W32),
            O::I32Ne => binary(B::Ne, W32),
            O::I32LtS => binary(B::LtS, W32),
            O::I32LtU => binary(B::LtU, W32),
            O::I32GtS => binary(B::GtS, W32),
            O::I32GtU => binary(B::GtU, W32),
            O::I32LeS => binary(B::LeS, W32),
            O::I32LeU => binary(B::LeU, W32),
            O::I32GeS => binary(B::GeS, W32),
            O::I32GeU => binary(B::GeU, W32),
            O::I64Eq => binary(B::Eq, W64),
            O::I64Ne => binary(B::Ne, W64),
            O::I64LtS => binary(B::LtS, W64),
            O::I64LtU => binary(B::LtU, W64),
            O::I64GtS => binary(B::GtS, W64),
            O::I64GtU => binary(B::GtU, W64),
            O::I64LeS => binary(B::LeS, W64),
            O::I64LeU => binary(B::LeU, W64),
            O::I64GeS => binary(B::GeS, W64),
            O::I64GeU => binary(B::GeU, W64),
            O::I32Add => binary(B::Add, W32),
            O::I32Sub => binary(B::Sub, W32),
            O::I32Mul => binary(B::Mul, W32),
            O::I32DivS => binary(B::DivS, W32),
            O::I32DivU => binary(B::DivU, W32),
            O::I32RemS => binary(B::RemS, W32),
            O::I32RemU => binary(B::RemU, W32),
            O::I32And => binary(B::And, W32),
            O::I32Or => binary(B::Or, W32),
            O::I32Xor => binary(B::Xor, W32),
            O::I32Shl => binary(B::Shl, W32),
            O::I32ShrS => binary(B::ShrS, W32),
            O::I32ShrU => binary(B::ShrU, W32),
            O::I32Rotl => binary(B::Rotl, W32),
            O::I32Rotr => binary(B::Rotr, W32),
            O::I64Add => binary(B::Add, W64),
            O::I64Sub => binary(B::Sub, W64),
            O::I64Mul => binary(B::Mul, W64),
            O::I64DivS => binary(B::DivS, W64),
            O::I64DivU => binary(B::DivU, W64),
            O::I64RemS => binary(B::RemS, W64),
            O::I64RemU => binary(B::RemU, W64),
            O::I64And => binary(B::And, W64),
            O::I64Or => binary(B::Or, W64),
            O::I64Xor => binary(B::Xor, W64),
            O::I64Shl => binary(B::Shl, W64),
            O::I64ShrS => binary(B::ShrS, W64),
            O::I64ShrU => binary(B::ShrU, W64),
            O::I64Rotl => binary(B::Rotl, W64),
            O::I64Rotr => binary(B::Rotr, W64),
            O::I32WrapI64 => (1, I::Wrap(W32)),
            O::I32Extend8S => (1, I::Extend(W8, W32)),
            O::I32Extend16S => (1, I::Extend(W16, W32)),
            O::I64Extend8S => (1, I::Extend(W8, W64)),
            O::I64Extend16S => (1, I::Extend(W16, W64)),
            O::I64Extend32S | O::I64ExtendI32S => (1, I::Extend(W32, W64)),
            O::F64Abs => float(FU::Abs),
            O::F64Neg => float(FU::Neg),
            O::F64Sqrt => float(FU::Sqrt),
            O::F32DemoteF64 => float(FU::DemoteF64),
            O::F64PromoteF32 => float(FU::PromoteF32),
            O::F64ConvertI32S => float(FU::F64FromI32S),
            O::F64ConvertI32U => float(FU::F64FromI32U),
            O::F64ConvertI64S => float(FU::F64FromI64S),
            O::F64ConvertI64U => float(FU::F64FromI64U),
            O::I32TruncSatF64S => float(FU::I32FromF64S),
            O::I64TruncSatF64U => float(FU::I64FromF64U),
            O::F64Add => floats(FB::Add),
            O::F64Sub => floats(FB::Sub),
            O::F64Mul => floats(FB::Mul),
            O::F64Div => floats(FB::Div),
            O::F64Copysign => floats(FB::Copysign),
            O::F64Eq => floats(FB::Eq),
            O::F64Ne => floats(FB::Ne),
            O::F64Lt => floats(FB::Lt),
            O::F64Gt => floats(FB::Gt),
            O::F64Le => floats(FB::Le),
            O::F64Ge => floats(FB::Ge),
            O::I32x4Splat => (1, I::Splat(W32)),
            O::I64x2Splat => (1, I::Splat(W64)),
            O::I32x4ExtractLane { lane } => (1, I::ExtractLane(32 * u32::from(lane), W32)),
            O::I64x2ExtractLane { lane } => (1, I::ExtractLane(64 * u32::from(lane), W64)),
            O::I32x4ReplaceLane { lane } => (2, I::ReplaceLane(32 * u32::from(lane), W32)),
            O::I64x2ReplaceLane { lane } => (2, I::ReplaceLane(64 * u32::from(lane), W64)),
            O::I8x16Shuffle { lanes } => (2, I::Shuffle(self.vector(u128::from_le_bytes(lanes)))),
            O::I8x16Eq => (2, I::EqualLanes(W8)),
            O::I8x16AllTrue => (1, I::AllTrue(W8)),
            O::I8x16Bitmask => (1, I::Bitmask(W8)),
            O::V128AnyTrue => (1, I::AnyTrue),
            O::V128And => lanes(B::And, W128),
            O::V128Or => lanes(B::Or, W128),
            O::V128Xor => lanes(B::Xor, W128),
            O::I32x4Add => lanes(B::Add, W32),
            O::I32x4Sub => lanes(B::Sub, W32),
            O::I32x4Mul => lanes(B::Mul, W32),
            O::I64x2Add => lanes(B::Add, W64),
            O::I64x2Sub => lanes(B::Sub, W64),
            O::I64x2Mul => lanes(B::Mul, W64),
            O::I32x4Shl => shift(B::Shl, W32),
            O::I32x4ShrS => shift(B::ShrS, W32),
            O::I32x4ShrU => shift(B::ShrU, W32),
            O::I64x2Shl => shift(B::Shl, W64),
            O::I64x2ShrS => shift(B::ShrS, W64),
            O::I64x2ShrU => shift(B::ShrU, W64),
            ref other => return Err(ModuleError::Operator(format!("{other:?}"))),
        })
    }
}
