//! How a command ended.

/// The status with which a command ends: 0 if all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u8);

impl Status {
    /// All is well.
    pub const SUCCESS: Self = Self(0);
    /// The command did its work, and the result is negative.
    pub const NEGATIVE: Self = Self(1);
    /// An error, or a wrong usage.
    pub const ERROR: Self = Self(2);
    /// Ctrl-C ended the command: the status that shells give such a program.
    pub const INTERRUPTED: Self = Self(130);

    /// The meanings of statuses, as help texts tell them.
    pub const MEANINGS: [(Self, &str); 4] = [
        (Self::SUCCESS, "success: every key was found, a protocol fits, nothing is in the way"),
        (Self::NEGATIVE, "a negative result: a key was not found, no protocol fits, a check failed"),
        (Self::ERROR, "an error or a wrong usage, which the last line of standard error explains"),
        (Self::INTERRUPTED, "Ctrl-C: what was answered before is printed"),
    ];

    /// The number that the system is told.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Success if `holds`, and else a negative result.
    pub fn of(holds: bool) -> Self {
        if holds { Self::SUCCESS } else { Self::NEGATIVE }
    }
}

impl From<u8> for Status {
    fn from(code: u8) -> Self {
        Self(code)
    }
}
