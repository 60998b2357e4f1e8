//! Interpreter of the device program, compiled for a 32-bit RISC, to count instructions.
//!
//! `dpu/dpxor.rv32` is clang's output for `dpu/dpxor.c` and `riscv32` (`scripts/pim_image.py`
//! describes the build). The DPU's own instructions are similar: in order, 32 bits, with loads and
//! stores apart from arithmetic. The DPU fuses some comparisons and jumps with the arithmetic
//! before them, so the real program has somewhat fewer instructions.

use super::EmulationCounts;
use super::ffi::Settings;
use crate::sdk::WRAM_BYTES;

const IMAGE: &str = include_str!("../../dpu/dpxor.rv32");
/// Number of tasklets that the image was compiled for.
const TASKLETS: u32 = 16;
const TEXT: u32 = 0x8000_0000;
/// Address that the program gets for the MRAM heap; not an address of WRAM.
const MRAM: u32 = 0x0800_0000;
/// Address of the first function of the SDK's headers; the others follow every 16 bytes
/// (`dpu/riscv32.ld`).
const CALLS: u32 = 0xf000_0000;
/// Return address of `main`.
const END: u32 = 0xffff_fff0;
/// Limit on instructions, above that of any launch: stops a program that does not end.
const MOST_INSTRUCTIONS: u64 = 1 << 34;

const RETURN_ADDRESS: usize = 1;
const STACK_POINTER: usize = 2;
const ARGUMENT: usize = 10;

/// Image in the form in which it runs.
struct Image {
    text: Vec<u32>,
    /// Contents of WRAM at the start.
    data: Vec<u8>,
    /// Address of the program's arguments.
    arguments: usize,
}

/// Returns the checksum of the source that the image was made from: FNV-1a of its bytes.
pub fn image_source_hash() -> u64 {
    let line = IMAGE.lines().find_map(|line| line.strip_prefix("source ")).unwrap_or_default();
    u64::from_str_radix(line, 16).unwrap_or_default()
}

impl Image {
    fn read() -> Result<Self, String> {
        let wrong = |line: &str| format!("the riscv32 image has a line {line:?}");
        let mut image = Self { text: Vec::new(), data: vec![0; WRAM_BYTES], arguments: 0 };
        let mut at = 0;
        for line in IMAGE.lines() {
            let number = |text: &str| u32::from_str_radix(text, 16).map_err(|_| wrong(line));
            if let Some(place) = line.strip_prefix("at ") {
                at = number(place)?;
            } else if let Some(place) = line.strip_prefix("arguments ") {
                image.arguments = number(place)? as usize;
            } else if !line.starts_with("source ") {
                for word in line.split(' ') {
                    let word = number(word)?;
                    if at >= TEXT {
                        image.text.push(word);
                    } else {
                        let place = at as usize..at as usize + 4;
                        let room = image.data.get_mut(place).ok_or_else(|| wrong(line))?;
                        room.copy_from_slice(&word.to_le_bytes());
                    }
                    at += 4;
                }
            }
        }
        Ok(image)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Waiting,
    Done,
}

struct Tasklet {
    registers: [u32; 32],
    pc: u32,
    state: State,
    instructions: u64,
}

struct Machine<'a> {
    text: &'a [u32],
    wram: Vec<u8>,
    mram: &'a mut [u8],
    heap_start: usize,
    heap_end: usize,
    heap: usize,
    copies_to_fail: Option<u64>,
    waiting: u32,
    counts: EmulationCounts,
}

/// Runs the program with these arguments. Returns the counts, or the reason of the DPU's fault.
pub(super) fn run(mram: &mut [u8], settings: Settings, arguments: &[u8]) -> Result<EmulationCounts, String> {
    if settings.tasklets != TASKLETS {
        return Err(format!("the riscv32 image is for {TASKLETS} tasklets, not {}", settings.tasklets));
    }
    let mut image = Image::read()?;
    image.data[image.arguments..image.arguments + arguments.len()].copy_from_slice(arguments);
    // Layout: variables, then the heap, with the stacks at the end.
    let stacks = TASKLETS as usize * settings.stack_bytes as usize;
    let heap_start = image.arguments.next_multiple_of(8) + 256;
    let heap_end = WRAM_BYTES.checked_sub(stacks).filter(|&end| end >= heap_start);
    let heap_end = heap_end.ok_or("the stacks overflow WRAM")?;
    let mut machine = Machine {
        text: &image.text,
        wram: image.data,
        mram,
        heap_start,
        heap_end,
        heap: heap_start,
        copies_to_fail: settings.copies_to_fail,
        waiting: 0,
        counts: EmulationCounts::default(),
    };
    let mut tasklets: Vec<Tasklet> = (0..TASKLETS as usize)
        .map(|tasklet| {
            let mut registers = [0; 32];
            registers[RETURN_ADDRESS] = END;
            registers[STACK_POINTER] = (heap_end + (tasklet + 1) * settings.stack_bytes as usize) as u32;
            Tasklet { registers, pc: TEXT, state: State::Ready, instructions: 0 }
        })
        .collect();
    while tasklets.iter().any(|tasklet| tasklet.state != State::Done) {
        let Some(next) = tasklets.iter().position(|tasklet| tasklet.state == State::Ready) else {
            return Err("tasklets wait at a barrier that others never reach".into());
        };
        let least = heap_end + next * settings.stack_bytes as usize;
        let mut released = false;
        while tasklets[next].state == State::Ready && !released {
            released = machine.step(&mut tasklets[next], next as u32, least as u32)?;
        }
        if released {
            tasklets
                .iter_mut()
                .filter(|it| it.state == State::Waiting)
                .for_each(|it| it.state = State::Ready);
        }
    }
    machine.counts.instructions = tasklets.iter().map(|tasklet| tasklet.instructions).sum();
    machine.counts.most_instructions =
        tasklets.iter().map(|tasklet| tasklet.instructions).max().unwrap_or_default();
    Ok(machine.counts)
}

impl Machine<'_> {
    /// Executes one instruction, or a call of a function of the SDK's headers. Returns true if the
    /// barrier released all waiting tasklets.
    fn step(&mut self, tasklet: &mut Tasklet, number: u32, least_stack: u32) -> Result<bool, String> {
        if tasklet.pc == END {
            tasklet.state = State::Done;
            return Ok(false);
        }
        if tasklet.pc >= CALLS {
            let released = self.call(tasklet, number)?;
            tasklet.pc = tasklet.registers[RETURN_ADDRESS];
            return Ok(released);
        }
        let place = tasklet.pc.wrapping_sub(TEXT) / 4;
        let &instruction =
            self.text.get(place as usize).ok_or_else(|| format!("an instruction at {:x}", tasklet.pc))?;
        tasklet.instructions += 1;
        if tasklet.instructions > MOST_INSTRUCTIONS {
            return Err("the program does not end".into());
        }
        self.execute(tasklet, instruction)?;
        if tasklet.registers[STACK_POINTER] < least_stack {
            return Err("a stack has more than its bytes of WRAM".into());
        }
        Ok(false)
    }

    fn call(&mut self, tasklet: &mut Tasklet, number: u32) -> Result<bool, String> {
        let [a0, a1, a2] = [0, 1, 2].map(|i| tasklet.registers[ARGUMENT + i]);
        let mut result = a0;
        match (tasklet.pc - CALLS) / 16 {
            0 => result = number,
            1 => self.heap = self.heap_start,
            2 => {
                result = self.heap as u32;
                self.heap += (a0 as usize).next_multiple_of(8);
                if self.heap > self.heap_end {
                    return Err(format!("no room in WRAM for {a0} bytes"));
                }
            }
            3 => {
                self.waiting += 1;
                if self.waiting == TASKLETS {
                    self.waiting = 0;
                    return Ok(true);
                }
                tasklet.state = State::Waiting;
            }
            4 => {
                let (from, to) = self.copy_places(a0, a1, a2)?;
                self.counts.reads += 1;
                self.counts.read_bytes += u64::from(a2);
                self.wram[to].copy_from_slice(&self.mram[from]);
            }
            5 => {
                let (to, from) = self.copy_places(a1, a0, a2)?;
                self.counts.writes += 1;
                self.counts.write_bytes += u64::from(a2);
                self.mram[to].copy_from_slice(&self.wram[from]);
            }
            6 => result = MRAM,
            7 => result = TASKLETS,
            _ => return Err(format!("a call of {:x}", tasklet.pc)),
        }
        tasklet.registers[ARGUMENT] = result;
        Ok(false)
    }

    /// Checks the rules of the DMA engine, and returns the places of a copy in MRAM and in WRAM.
    fn copy_places(
        &mut self,
        mram: u32,
        wram: u32,
        bytes: u32,
    ) -> Result<(std::ops::Range<usize>, std::ops::Range<usize>), String> {
        if let Some(copies) = &mut self.copies_to_fail {
            *copies = copies.checked_sub(1).ok_or("the DPU failed, as it was told to")?;
        }
        if !(8..=2048).contains(&bytes) || !bytes.is_multiple_of(8) || !wram.is_multiple_of(8) {
            return Err(format!("a copy of {bytes} bytes to or from {wram:x} of WRAM"));
        }
        let first = mram.wrapping_sub(MRAM) as usize;
        let (mram, wram) = (first..first + bytes as usize, wram as usize..wram as usize + bytes as usize);
        if !first.is_multiple_of(8) || mram.end > self.mram.len() || wram.end > self.heap {
            return Err(format!("a copy of {bytes} bytes at {first} of MRAM"));
        }
        Ok((mram, wram))
    }

    fn wram(&mut self, address: u32, bytes: usize) -> Result<&mut [u8], String> {
        let place = address as usize;
        if !place.is_multiple_of(bytes) {
            return Err(format!("a misaligned access of WRAM at {address:x}"));
        }
        self.wram.get_mut(place..place + bytes).ok_or_else(|| format!("an access beyond WRAM at {address:x}"))
    }

    fn load(&mut self, address: u32, width: u32) -> Result<u32, String> {
        Ok(match width {
            0 => self.wram(address, 1)?[0] as i8 as u32,
            1 => {
                let bytes = self.wram(address, 2)?;
                i16::from_le_bytes([bytes[0], bytes[1]]) as u32
            }
            2 => {
                let bytes = self.wram(address, 4)?;
                u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
            }
            4 => self.wram(address, 1)?[0].into(),
            5 => {
                let bytes = self.wram(address, 2)?;
                u16::from_le_bytes([bytes[0], bytes[1]]).into()
            }
            _ => return Err(format!("a load of width {width}")),
        })
    }

    fn store(&mut self, address: u32, width: u32, value: u32) -> Result<(), String> {
        let bytes = match width {
            0..=2 => 1 << width,
            _ => return Err(format!("a store of width {width}")),
        };
        self.wram(address, bytes)?.copy_from_slice(&value.to_le_bytes()[..bytes]);
        Ok(())
    }

    /// Executes an instruction of RV32IM without environment calls: C without atomics needs no
    /// other instructions.
    fn execute(&mut self, tasklet: &mut Tasklet, instruction: u32) -> Result<(), String> {
        let field = |from: u32, bits: u32| instruction >> from & ((1 << bits) - 1);
        let signed = instruction as i32;
        let (to, funct3, funct7) = (field(7, 5) as usize, field(12, 3), field(25, 7));
        let a = tasklet.registers[field(15, 5) as usize];
        let b = tasklet.registers[field(20, 5) as usize];
        let immediate = (signed >> 20) as u32;
        let mut next = tasklet.pc.wrapping_add(4);
        let unknown = || format!("an unknown instruction {instruction:08x} at {:x}", tasklet.pc);
        let value = match field(0, 7) {
            0x37 => Some(instruction & 0xffff_f000),
            0x17 => Some(tasklet.pc.wrapping_add(instruction & 0xffff_f000)),
            0x6f => {
                let offset = ((signed >> 31) as u32) << 20
                    | field(12, 8) << 12
                    | field(20, 1) << 11
                    | field(21, 10) << 1;
                let link = next;
                next = tasklet.pc.wrapping_add(offset);
                Some(link)
            }
            0x67 => {
                let link = next;
                next = a.wrapping_add(immediate) & !1;
                Some(link)
            }
            0x63 => {
                let taken = match funct3 {
                    0 => a == b,
                    1 => a != b,
                    4 => (a as i32) < b as i32,
                    5 => a as i32 >= b as i32,
                    6 => a < b,
                    7 => a >= b,
                    _ => return Err(unknown()),
                };
                if taken {
                    let offset = ((signed >> 31) as u32) << 12
                        | field(7, 1) << 11
                        | field(25, 6) << 5
                        | field(8, 4) << 1;
                    next = tasklet.pc.wrapping_add(offset);
                }
                None
            }
            0x03 => Some(self.load(a.wrapping_add(immediate), funct3)?),
            0x23 => {
                let offset = ((signed >> 25) << 5) as u32 | field(7, 5);
                self.store(a.wrapping_add(offset), funct3, b)?;
                None
            }
            0x13 => Some(arithmetic(funct3, a, immediate, funct3 == 5 && funct7 & 0x20 != 0)),
            0x33 if funct7 == 1 => Some(multiplied(funct3, a, b).ok_or_else(unknown)?),
            0x33 if funct3 == 0 && funct7 == 0x20 => Some(a.wrapping_sub(b)),
            0x33 => Some(arithmetic(funct3, a, b, funct7 & 0x20 != 0)),
            _ => return Err(unknown()),
        };
        if let Some(value) = value.filter(|_| to != 0) {
            tasklet.registers[to] = value;
        }
        tasklet.pc = next;
        Ok(())
    }
}

fn arithmetic(funct3: u32, a: u32, b: u32, is_arithmetic_shift: bool) -> u32 {
    match funct3 {
        0 => a.wrapping_add(b),
        1 => a << (b & 31),
        2 => u32::from((a as i32) < b as i32),
        3 => u32::from(a < b),
        4 => a ^ b,
        5 if is_arithmetic_shift => (a as i32 >> (b & 31)) as u32,
        5 => a >> (b & 31),
        6 => a | b,
        _ => a & b,
    }
}

/// Computes unsigned products and quotients; signed divisions do not occur.
fn multiplied(funct3: u32, a: u32, b: u32) -> Option<u32> {
    match funct3 {
        0 => Some(a.wrapping_mul(b)),
        3 => Some(((u64::from(a) * u64::from(b)) >> 32) as u32),
        5 => Some(a.checked_div(b).unwrap_or(u32::MAX)),
        7 => Some(a.checked_rem(b).unwrap_or(a)),
        _ => None,
    }
}
