//! Thread that prints results, so that requests wait neither for a reader nor for a disk.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Write as _};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow};
use spirea_client::{ClientError, Fetched, Value, Version};
use spirea_console::output::print_error;

use super::results::{Fields, Layout, Line};
use super::resume::Resume;

/// Name of a look-up in the printed results.
#[derive(Clone)]
pub struct Label {
    /// The key as written, the index, or one of the names that are looked up for a domain.
    pub name: String,
    /// Number of the domain for which the name is looked up, if any.
    pub domain: Option<usize>,
}

/// Answers of one request, or of several that were decoded together.
pub struct Answers {
    /// Position of the first answer in the list, from 0.
    pub first: usize,
    /// Values of the answers, or the reason for withholding them all.
    pub values: Result<Vec<Fetched<Value>>, ClientError>,
    /// Version of the database that answered, for each value.
    pub versions: Vec<Version>,
    /// Names and types of a value's fields.
    pub fields: Fields,
}

/// Final state of the printing.
pub struct Printed {
    /// Number of complete look-ups of the list, including those of earlier runs.
    pub complete: usize,
    /// True if a value was not found or was dropped.
    pub is_incomplete: bool,
}

/// Printer of answers, in the order in which they are passed.
pub struct Printer {
    answers: Sender<Answers>,
    thread: JoinHandle<anyhow::Result<Printed>>,
}

impl Printer {
    /// Starts a printer for the results of a list, from position `start`. It records its progress
    /// in `resume`. Look-ups without a label are dummies.
    pub fn start(labels: Vec<Option<Label>>, start: usize, layout: Layout, resume: Option<Resume>) -> Self {
        let (answers, given) = channel();
        let thread = thread::spawn(move || {
            let printed = Printed { complete: start, is_incomplete: false };
            let missing = labels.iter().flatten().filter_map(|label| label.domain).collect();
            Printing { labels, missing, layout, resume, printed, loss: Ok(()), has_reader: true }.of(given)
        });
        Self { answers, thread }
    }

    /// Queues answers, without waiting.
    pub fn print(&self, answers: Answers) {
        self.answers.send(answers).expect("the thread ends with its queue");
    }

    /// Waits until everything is printed.
    ///
    /// # Errors
    /// The reason why the first missing results were withheld or not written.
    pub fn finish(self) -> anyhow::Result<Printed> {
        drop(self.answers);
        self.thread.join().map_err(|_| anyhow!("printing was aborted by a defect"))?
    }
}

struct Printing {
    labels: Vec<Option<Label>>,
    /// Domains for which no name has been found.
    missing: BTreeSet<usize>,
    layout: Layout,
    resume: Option<Resume>,
    printed: Printed,
    /// First error by which results were lost.
    loss: anyhow::Result<()>,
    /// True while standard output accepts results.
    has_reader: bool,
}

impl Printing {
    fn of(mut self, given: Receiver<Answers>) -> anyhow::Result<Printed> {
        for answers in given {
            let printed = self.print(answers);
            if self.loss.is_ok() {
                self.loss = printed;
            }
        }
        self.printed.is_incomplete |= !self.missing.is_empty();
        self.loss.map(|()| self.printed)
    }

    fn print(&mut self, Answers { first, values, versions, fields }: Answers) -> anyhow::Result<()> {
        let values = match values {
            Ok(values) => values,
            Err(error) => {
                self.restart()?;
                return Err(error).with_context(|| {
                    format!(
                        "results from number {} of the list were withheld; ask for the whole list again",
                        first + 1
                    )
                });
            }
        };
        for (label, value) in self.labels[first..].iter().zip(&values) {
            match (label, value) {
                (Some(Label { domain: Some(domain), .. }), Fetched::Value(_)) => {
                    self.missing.remove(domain);
                }
                (Some(Label { domain: None, .. }), Fetched::Absent | Fetched::Dropped) => {
                    self.printed.is_incomplete = true;
                }
                _ => {}
            }
        }
        if !self.has_reader {
            return Ok(());
        }
        if let Err(error) = self.write(first, &values, &versions, &fields) {
            self.has_reader = false;
            self.restart()?;
            // A reader that has closed the pipe wants neither results nor an error.
            return match error.kind() {
                ErrorKind::BrokenPipe => Ok(()),
                _ => Err(error).context("results cannot be written to standard output"),
            };
        }
        self.printed.complete = first + values.len();
        match &mut self.resume {
            Some(resume) if self.loss.is_ok() => resume.record(self.printed.complete),
            _ => Ok(()),
        }
    }

    /// Lets the next run with the file of `--resume` begin where this run began. Its first request
    /// then tells a server only that results were lost, not which ones.
    fn restart(&mut self) -> anyhow::Result<()> {
        self.resume.as_mut().map_or(Ok(()), Resume::restart)
    }

    fn write(
        &self,
        first: usize,
        values: &[Fetched<Value>],
        versions: &[Version],
        fields: &Fields,
    ) -> io::Result<()> {
        let mut output = io::stdout().lock();
        for ((label, value), version) in self.labels[first..].iter().zip(values).zip(versions) {
            let Some(label) = label else { continue };
            match self.layout.line(&label.name, value, version, fields) {
                Line::Result(line) => output.write_all(&line)?,
                Line::Missing(line) => print_error(&line),
            }
        }
        output.flush()
    }
}
