//! An instance of the client, like `clients/ts/src/worker/instance.ts` in JavaScript, with marks.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::machine::{Machine, Steering, Surroundings, Trap};
use crate::marked::Marked;
use crate::memory::Memory;
use crate::module::Module;

/// A message: a head, and bytes with their marks.
pub struct Message {
    /// The head, which is public.
    pub head: Value,
    /// The bytes.
    pub body: Vec<u8>,
    /// Their marks.
    pub marks: Vec<u8>,
}

impl Message {
    /// Creates a message without bytes.
    pub fn of(head: Value) -> Self {
        Self::with_body(head, &[])
    }

    /// Creates a message whose bytes are public.
    pub fn with_body(head: Value, body: &[u8]) -> Self {
        Self { head, body: body.to_vec(), marks: vec![0; body.len()] }
    }

    /// Creates a message whose bytes are secret.
    pub fn secret(head: Value, body: Vec<u8>) -> Self {
        let marks = vec![u8::MAX; body.len()];
        Self { head, body, marks }
    }

    /// Returns true if any bit of its bytes is secret.
    pub fn is_secret(&self) -> bool {
        self.marks.iter().any(|&marks| marks != 0)
    }
}

/// Imports of the client: randomness, which is secret, and time.
pub struct Page {
    state: u64,
}

impl Page {
    /// Creates imports whose randomness has this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next output of SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Surroundings for Page {
    fn call(&mut self, name: &str, operands: &[Marked], memory: &mut Memory) -> Result<Option<Marked>, Trap> {
        match (name, operands) {
            ("random", [start, length]) => {
                let length = length.value as usize;
                let drawn: Vec<u8> = std::iter::repeat_with(|| self.next() as u8).take(length).collect();
                memory.write(start.value as usize, &drawn, &vec![u8::MAX; length])?;
                Ok(Some(Marked::default()))
            }
            ("now", []) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok(Some(Marked::public((now.as_secs_f64() * 1000.0).to_bits())))
            }
            ("progress", [_, _, _]) => Ok(None),
            _ => Err(Trap::Missing(name.into())),
        }
    }
}

/// An instance with one client.
pub struct Instance<'m> {
    /// The instance of the module.
    pub machine: Machine<'m, Page>,
}

impl<'m> Instance<'m> {
    /// Creates an instance whose randomness has this seed.
    ///
    /// # Errors
    /// [`Trap`]
    pub fn new(module: &'m Module, seed: u64) -> Result<Self, Trap> {
        Ok(Self { machine: Machine::new(module, Page::new(seed))? })
    }

    /// Calls an export without operands.
    ///
    /// # Errors
    /// [`Trap`]
    pub fn call(&mut self, export: &str) -> Result<u32, Trap> {
        self.machine.call(export, &[])
    }

    /// Calls an export with a message; returns true if the export could do what the message asks.
    ///
    /// # Errors
    /// [`Trap`]
    pub fn tell(&mut self, export: &str, message: &Message) -> Result<bool, Trap> {
        let head = message.head.to_string().into_bytes();
        let length = 4 + head.len() + message.body.len();
        let start = self.machine.call("input", &[length as u32])? as usize;
        let bytes = [&(head.len() as u32).to_le_bytes()[..], &head, &message.body].concat();
        let marks = [&vec![0; 4 + head.len()][..], &message.marks].concat();
        self.machine.memory.write(start, &bytes, &marks)?;
        Ok(self.call(export)? != 0)
    }

    /// Returns the message that the last call left, and erases it in the instance. Its head must be
    /// public.
    ///
    /// # Errors
    /// [`Trap`]
    pub fn output(&mut self) -> Result<Message, Trap> {
        let (start, length) = (self.call("output")?, self.call("output_length")?);
        let (bytes, marks) = self.machine.memory.read(start as usize, length as usize)?;
        let (head, body) = bytes.split_at(4 + u32::from_le_bytes(std::array::from_fn(|i| bytes[i])) as usize);
        let (of_head, marks) = marks.split_at(head.len());
        let is_secret = of_head.iter().any(|&marks| marks != 0);
        let head = serde_json::from_slice(&head[4..]).expect("heads are JSON");
        let message = Message { head, body: body.to_vec(), marks: marks.to_vec() };
        if is_secret {
            self.machine
                .found
                .insert((0, Steering::Export), vec![format!("a message's head: {}", message.head)]);
        }
        self.call("erase")?;
        Ok(message)
    }
}
