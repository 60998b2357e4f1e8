//! Exit statuses of the command.

/// Exit status of the command; 0 for success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u8);

impl Status {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// The command worked, and the result is negative.
    pub const NEGATIVE: Self = Self(1);
    /// An error, or a wrong usage.
    pub const ERROR: Self = Self(2);
    /// Ended by Ctrl-C; shells use this status for such programs.
    pub const INTERRUPTED: Self = Self(130);

    /// Meanings of the statuses, for help texts.
    pub const MEANINGS: [(Self, &str); 4] = [
        (Self::SUCCESS, "success: every key was found, a protocol fits, nothing is in the way"),
        (Self::NEGATIVE, "a negative result: a key was not found, no protocol fits, a check failed"),
        (Self::ERROR, "an error or a wrong usage, which the last line of standard error explains"),
        (Self::INTERRUPTED, "Ctrl-C: what was answered before is printed"),
    ];

    /// Number for the system.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Returns success if `holds`, else a negative result.
    pub fn of(holds: bool) -> Self {
        if holds { Self::SUCCESS } else { Self::NEGATIVE }
    }
}

impl From<u8> for Status {
    fn from(code: u8) -> Self {
        Self(code)
    }
}
