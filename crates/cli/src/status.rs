//! How a command ended.

/// The status with which a command ends: 0 if all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u8);

impl Status {
    /// All is well.
    pub const SUCCESS: Self = Self(0);

    /// The number that the system is told.
    pub fn code(self) -> u8 {
        self.0
    }
}

impl From<u8> for Status {
    fn from(code: u8) -> Self {
        Self(code)
    }
}
