//! DPUs that are emulated on the processor.
//!
//! The machine's C compiler compiles the unchanged device program `dpu/dpxor.c` against headers
//! with the SDK's names. Tasklets are fibers that a barrier switches between; DPUs run on threads
//! of a pool. Copies between MRAM and WRAM that break a rule of the hardware put a DPU in fault,
//! and so do stacks and heaps beyond WRAM. Host transfers that break a rule are errors. The
//! emulation counts bytes and calls, and also instructions if the program is interpreted
//! ([`Execution::Interpreted`]).

mod ffi;
mod interpreter;

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::sdk::{
    DpuSet, MOST_TASKLETS, MRAM_BYTES, PimError, Sdk, Symbol, WRAM_BYTES, check_transfer, common_length,
};
use ffi::{Mram, Program, Settings};

pub use interpreter::image_source_hash;

/// Execution of the program on an emulated DPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Compiled for the processor.
    #[default]
    Compiled,
    /// Compiled for a 32-bit RISC (`riscv32`) and interpreted: about a hundred times slower, but
    /// counts instructions.
    Interpreted,
}

/// Time at which a DPU fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTime {
    /// From the start: the DPU never works.
    Start,
    /// At a copy between MRAM and WRAM in a launch of its set.
    Launch {
        /// Number of the launch, counted from 0.
        launch: u64,
        /// Number of the copy in the launch, counted from 0.
        copy: u64,
    },
}

/// Planned failure of a DPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFault {
    /// Number of the DPU in the machine.
    pub dpu: usize,
    /// Time of the failure.
    pub time: FaultTime,
}

/// Emulated machine.
#[derive(Clone, Debug)]
pub struct EmulationConfig {
    /// Number of DPUs of the machine.
    pub dpus: usize,
    /// Tasklets of each DPU, 1 to 24: `NR_TASKLETS` of the program.
    pub tasklets: u32,
    /// Bytes of WRAM of each tasklet's stack: `STACK_SIZE_DEFAULT` of the program.
    pub stack_bytes: u32,
    /// Bytes of MRAM of each DPU, a multiple of 8, at most 64 MiB.
    pub mram_bytes: usize,
    /// Number of threads on which DPUs run.
    pub threads: usize,
    /// Execution of the program.
    pub execution: Execution,
    /// Planned failures.
    pub faults: Vec<PlannedFault>,
    /// Name of a program of `emulation/planted.c` that replaces the device program, for tests.
    pub planted: Option<String>,
}

impl Default for EmulationConfig {
    /// Returns 64 DPUs of 16 tasklets, with 512 bytes of stack each.
    fn default() -> Self {
        Self {
            dpus: 64,
            tasklets: 16,
            stack_bytes: 512,
            mram_bytes: MRAM_BYTES,
            threads: 1,
            execution: Execution::default(),
            faults: Vec::new(),
            planted: None,
        }
    }
}

/// Counts of the emulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulationCounts {
    /// Launches of sets.
    pub launches: u64,
    /// Transfers from the host to DPUs; a transfer to all DPUs of a set counts once.
    pub transfers_to: u64,
    /// Bytes from the host, summed over DPUs.
    pub bytes_to: u64,
    /// Transfers from DPUs to the host.
    pub transfers_from: u64,
    /// Bytes to the host, summed over DPUs.
    pub bytes_from: u64,
    /// Copies from MRAM to WRAM.
    pub reads: u64,
    /// Bytes of the copies from MRAM to WRAM.
    pub read_bytes: u64,
    /// Copies from WRAM to MRAM.
    pub writes: u64,
    /// Bytes of the copies from WRAM to MRAM.
    pub write_bytes: u64,
    /// Instructions of all tasklets; 0 unless interpreted.
    pub instructions: u64,
    /// Maximum number of instructions of a tasklet in a launch; 0 unless interpreted.
    pub most_instructions: u64,
}

struct Shared {
    config: EmulationConfig,
    program: Program,
    pool: ThreadPool,
    counts: Mutex<EmulationCounts>,
    /// DPUs that belong to no set.
    free: Mutex<Vec<Dpu>>,
}

/// Machine with emulated DPUs.
#[derive(Clone)]
pub struct Emulation(Arc<Shared>);

impl Emulation {
    /// Creates a machine.
    ///
    /// # Errors
    /// [`PimError::Tasklets`] for an impossible number of tasklets, [`PimError::Settings`] for no
    /// DPUs, no threads, or an impossible size of MRAM, [`PimError::Program`] if there is no such
    /// planted program.
    pub fn new(config: EmulationConfig) -> Result<Self, PimError> {
        if config.tasklets == 0 || config.tasklets > MOST_TASKLETS {
            return Err(PimError::Tasklets(config.tasklets));
        }
        let settings = |what: &str| Err(PimError::Settings(what.into()));
        if config.dpus == 0 || config.threads == 0 {
            return settings("an emulation has at least one DPU and one thread");
        }
        if config.mram_bytes == 0 || config.mram_bytes > MRAM_BYTES || !config.mram_bytes.is_multiple_of(8) {
            return settings("an emulated MRAM has 8 bytes to 64 MiB, a multiple of 8");
        }
        let program = match &config.planted {
            None => Program::dpxor(),
            Some(name) => {
                Program::planted(name).ok_or_else(|| PimError::Program(format!("no planted {name:?}")))?
            }
        };
        let pool = ThreadPoolBuilder::new()
            .num_threads(config.threads)
            .thread_name(|i| format!("spirea-dpu-{i}"))
            .build()
            .map_err(|error| PimError::Settings(format!("{} threads: {error}", config.threads)))?;
        let symbols: usize = program.symbols().iter().map(|(_, bytes)| bytes).sum();
        let dpu = |number| {
            let mram = Mram::new(config.mram_bytes)?;
            Some(Dpu { number, mram, symbols: vec![0; symbols], launches: 0, fault: None })
        };
        let dpus: Option<Vec<Dpu>> = (0..config.dpus).rev().map(dpu).collect();
        let free = Mutex::new(dpus.ok_or_else(|| PimError::Settings("no memory for MRAM".into()))?);
        Ok(Self(Arc::new(Shared { config, program, pool, counts: Mutex::default(), free })))
    }

    /// Returns the counts since the last call, and resets them.
    pub fn take_counts(&self) -> EmulationCounts {
        std::mem::take(&mut *self.0.counts())
    }
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, EmulationCounts> {
        self.counts.lock()
    }

    fn free(&self) -> MutexGuard<'_, Vec<Dpu>> {
        self.free.lock()
    }
}

impl Sdk for Emulation {
    fn alloc(&self, dpus: Option<usize>) -> Result<Box<dyn DpuSet>, PimError> {
        let mut free = self.0.free();
        let wanted = dpus.unwrap_or_else(|| free.len().max(1));
        if wanted == 0 || wanted > free.len() {
            return Err(PimError::Allocation { wanted, free: free.len() });
        }
        let first = free.len() - wanted;
        let dpus = free.drain(first..).rev().collect();
        Ok(Box::new(EmulatedSet { machine: Arc::clone(&self.0), dpus, is_loaded: false }))
    }

    fn name(&self) -> &'static str {
        "pim-emulated"
    }
}

struct Dpu {
    number: usize,
    mram: Mram,
    /// Values of the program's symbols, one after another.
    symbols: Vec<u8>,
    launches: u64,
    /// Reason of the DPU's fault.
    fault: Option<String>,
}

/// Set of DPUs of an emulated machine.
struct EmulatedSet {
    machine: Arc<Shared>,
    dpus: Vec<Dpu>,
    is_loaded: bool,
}

impl Drop for EmulatedSet {
    fn drop(&mut self) {
        let mut free = self.machine.free();
        free.extend(self.dpus.drain(..).rev());
        free.sort_by_key(|dpu| std::cmp::Reverse(dpu.number));
    }
}

impl EmulatedSet {
    /// Finds the place of a symbol: in MRAM, or among the program's symbols.
    fn place(&self, symbol: Symbol, offset: usize, bytes: usize) -> Result<Place, PimError> {
        if !self.is_loaded {
            return Err(PimError::Program("none is loaded".into()));
        }
        let mut first = 0;
        let room = match symbol {
            Symbol::MramHeap => self.machine.config.mram_bytes,
            Symbol::Arguments => {
                let symbols = self.machine.program.symbols();
                let known = symbols.iter().find(|(name, bytes)| {
                    let found = *name == symbol.name();
                    first += if found { 0 } else { *bytes };
                    found
                });
                known.ok_or_else(|| PimError::Transfer(format!("no symbol {}", symbol.name())))?.1
            }
        };
        check_transfer(offset, bytes, room)?;
        Ok(Place { symbol, range: first + offset..first + offset + bytes })
    }
}

struct Place {
    symbol: Symbol,
    range: std::ops::Range<usize>,
}

impl Dpu {
    fn at(&self, place: &Place) -> &[u8] {
        match place.symbol {
            Symbol::MramHeap => &self.mram.bytes()[place.range.clone()],
            Symbol::Arguments => &self.symbols[place.range.clone()],
        }
    }

    fn at_mut(&mut self, place: &Place) -> &mut [u8] {
        match place.symbol {
            Symbol::MramHeap => &mut self.mram.bytes_mut()[place.range.clone()],
            Symbol::Arguments => &mut self.symbols[place.range.clone()],
        }
    }

    /// Runs the program, unless the DPU is in fault.
    fn run(&mut self, machine: &Shared) -> EmulationCounts {
        let config = &machine.config;
        let planned = config.faults.iter().filter(|fault| fault.dpu == self.number);
        let mut copies_to_fail = None;
        for fault in planned {
            match fault.time {
                FaultTime::Start => self.fault = Some("it never worked, as planned".into()),
                FaultTime::Launch { launch, copy } if launch == self.launches => copies_to_fail = Some(copy),
                FaultTime::Launch { .. } => {}
            }
        }
        self.launches += 1;
        if self.fault.is_some() {
            return EmulationCounts::default();
        }
        let settings =
            Settings { tasklets: config.tasklets, stack_bytes: config.stack_bytes, copies_to_fail };
        let outcome = match config.execution {
            Execution::Compiled => ffi::run(machine.program, &mut self.mram, settings, &mut self.symbols)
                .map(|counts| EmulationCounts {
                    reads: counts.reads,
                    read_bytes: counts.read_bytes,
                    writes: counts.writes,
                    write_bytes: counts.write_bytes,
                    ..EmulationCounts::default()
                }),
            Execution::Interpreted => interpreter::run(self.mram.bytes_mut(), settings, &self.symbols),
        };
        outcome.unwrap_or_else(|reason| {
            self.fault = Some(reason);
            EmulationCounts::default()
        })
    }
}

impl DpuSet for EmulatedSet {
    fn dpus(&self) -> usize {
        self.dpus.len()
    }

    fn load(&mut self) -> Result<(), PimError> {
        let Shared { config, program, .. } = &*self.machine;
        let stacks = config.tasklets as usize * config.stack_bytes as usize;
        if stacks + program.variable_bytes() > WRAM_BYTES {
            return Err(PimError::Wram(format!(
                "the stacks of {} tasklets, {} bytes each, overflow WRAM",
                config.tasklets, config.stack_bytes
            )));
        }
        if config.execution == Execution::Interpreted && config.planted.is_some() {
            return Err(PimError::Program("planted programs are not interpreted".into()));
        }
        self.is_loaded = true;
        Ok(())
    }

    fn push_to(&mut self, symbol: Symbol, offset: usize, bytes: &[Option<&[u8]>]) -> Result<(), PimError> {
        let length = common_length(self.dpus(), bytes)?;
        let place = self.place(symbol, offset, length)?;
        self.dpus.iter_mut().zip(bytes).for_each(|(dpu, bytes)| {
            if let Some(bytes) = bytes {
                dpu.at_mut(&place).copy_from_slice(bytes);
            }
        });
        let mut counts = self.machine.counts();
        counts.transfers_to += 1;
        counts.bytes_to += (bytes.iter().flatten().count() * length) as u64;
        Ok(())
    }

    fn push_from(&mut self, symbol: Symbol, offset: usize, bytes: &mut [u8]) -> Result<(), PimError> {
        let length = bytes.len() / self.dpus();
        if length * self.dpus() != bytes.len() {
            return Err(PimError::Transfer(format!("{} bytes for {} DPUs", bytes.len(), self.dpus())));
        }
        let place = self.place(symbol, offset, length)?;
        if length > 0 {
            let each = self.dpus.iter().zip(bytes.chunks_exact_mut(length));
            each.for_each(|(dpu, bytes)| bytes.copy_from_slice(dpu.at(&place)));
        }
        let mut counts = self.machine.counts();
        counts.transfers_from += 1;
        counts.bytes_from += bytes.len() as u64;
        Ok(())
    }

    fn broadcast_to(&mut self, symbol: Symbol, offset: usize, bytes: &[u8]) -> Result<(), PimError> {
        let all: Vec<Option<&[u8]>> = vec![Some(bytes); self.dpus()];
        self.push_to(symbol, offset, &all)
    }

    fn copy_from(
        &mut self,
        dpu: usize,
        symbol: Symbol,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), PimError> {
        let place = self.place(symbol, offset, bytes.len())?;
        let there = self.dpus.get(dpu);
        let there = there.ok_or_else(|| PimError::Transfer(format!("DPU {dpu} of {}", self.dpus())))?;
        bytes.copy_from_slice(there.at(&place));
        let mut counts = self.machine.counts();
        counts.transfers_from += 1;
        counts.bytes_from += bytes.len() as u64;
        Ok(())
    }

    fn launch(&mut self) -> Result<(), PimError> {
        if !self.is_loaded {
            return Err(PimError::Program("none is loaded".into()));
        }
        let machine = &*self.machine;
        let dpus = &mut self.dpus;
        let total = machine.pool.install(|| {
            let counts = dpus.par_iter_mut().map(|dpu| dpu.run(machine));
            counts.reduce(EmulationCounts::default, EmulationCounts::add)
        });
        {
            let mut counts = machine.counts();
            *counts = counts.add(EmulationCounts { launches: 1, ..total });
        }
        let fault = self.dpus.iter().find_map(|dpu| Some((dpu.number, dpu.fault.as_ref()?)));
        match fault {
            None => Ok(()),
            Some((number, reason)) => Err(PimError::Fault(format!("DPU {number}, {reason}"))),
        }
    }
}

impl EmulationCounts {
    fn add(self, other: Self) -> Self {
        Self {
            launches: self.launches + other.launches,
            transfers_to: self.transfers_to + other.transfers_to,
            bytes_to: self.bytes_to + other.bytes_to,
            transfers_from: self.transfers_from + other.transfers_from,
            bytes_from: self.bytes_from + other.bytes_from,
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            write_bytes: self.write_bytes + other.write_bytes,
            instructions: self.instructions + other.instructions,
            most_instructions: self.most_instructions.max(other.most_instructions),
        }
    }
}
