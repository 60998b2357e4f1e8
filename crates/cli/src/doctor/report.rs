//! Report of the checks: the result, the cause of a failure, and the remedy.

use serde_json::json;
use spirea_console::output::{Format, print_line};

use crate::about::{self, Fact};

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Ok,
    Warn,
    Fail,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }
}

/// Prints each check as it ends, and remembers whether any failed.
pub struct Report {
    format: Format,
    server: String,
    failed: bool,
}

impl Report {
    pub fn new(format: Format) -> Self {
        Self { format, server: String::new(), failed: false }
    }

    /// Sets the server for the lines that follow.
    pub fn of(&mut self, server: &str) {
        self.server = server.into();
    }

    /// Prints a fact, which is neither good nor bad.
    pub fn fact(&self, fact: &Fact) -> anyhow::Result<()> {
        match self.format {
            Format::Json => print_line(&json!({ "fact": fact.0, "value": fact.1 }).to_string()),
            Format::Text => print_line(&about::line(fact)),
        }
    }

    pub fn has_failed(&self) -> bool {
        self.failed
    }

    pub fn ok(&mut self, check: &str, detail: impl Into<String>) -> anyhow::Result<()> {
        self.line(Outcome::Ok, check, &detail.into(), "")
    }

    pub fn warn(&mut self, check: &str, detail: impl Into<String>, remedy: &str) -> anyhow::Result<()> {
        self.line(Outcome::Warn, check, &detail.into(), remedy)
    }

    pub fn fail(&mut self, check: &str, detail: impl Into<String>, remedy: &str) -> anyhow::Result<()> {
        self.failed = true;
        self.line(Outcome::Fail, check, &detail.into(), remedy)
    }

    fn line(&self, outcome: Outcome, check: &str, detail: &str, remedy: &str) -> anyhow::Result<()> {
        let name = outcome.name();
        match self.format {
            Format::Json => print_line(
                &json!({ "server": self.server, "check": check, "outcome": name, "detail": detail, "remedy": remedy })
                    .to_string(),
            ),
            Format::Text if remedy.is_empty() => print_line(&format!("{name:<4}  {check:<8}  {detail}")),
            Format::Text => print_line(&format!("{name:<4}  {check:<8}  {detail}; {remedy}")),
        }
    }
}
