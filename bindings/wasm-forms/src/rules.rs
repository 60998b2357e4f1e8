//! Calls of the rules for forms.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use spirea_math::random::NoEntropy;
use spirea_normalise::{DomainKeys, asked, check, is_known};
use spirea_protocols::table::KeyForm;
use spirea_wasm_memory::{Message, Mismatch, pieces};
use zeroize::Zeroizing;

/// Domains to look up; the body has their names.
#[derive(Deserialize)]
struct Domains {
    /// Length of each name in bytes.
    lengths: Vec<usize>,
    /// Number of look-ups for each domain.
    count: NonZeroUsize,
}

/// A domain's names. The body has the keys to look up, `count` for each domain, one after another.
#[derive(Serialize)]
struct Named<'a> {
    names: &'a [String],
    unasked: &'a [String],
    /// Length of each key in bytes.
    lengths: Vec<usize>,
}

/// An error in the form that JavaScript receives.
#[derive(Serialize)]
struct Failure {
    code: &'static str,
    message: String,
}

impl From<Mismatch> for Failure {
    fn from(mismatch: Mismatch) -> Self {
        Self { code: "internal", message: mismatch.to_string() }
    }
}

impl From<NoEntropy> for Failure {
    fn from(error: NoEntropy) -> Self {
        Self { code: "no-entropy", message: error.to_string() }
    }
}

/// The two messages of an instance. Every call returns true on success; else the output has a
/// [`Failure`].
#[derive(Default)]
pub struct Rules {
    pub input: Message,
    pub output: Message,
}

impl Rules {
    /// Checks that these rules can bring keys into the form in the input's head. The head of the
    /// output is the fault, or null.
    pub fn check(&mut self) -> bool {
        self.attempt(|rules| {
            let (form, _): (KeyForm, _) = rules.input.take()?;
            rules.output.write(&check(&form).err(), &[]);
            Ok(())
        })
    }

    /// Brings a key, the body of the input, into the form in the head. The body of the output is
    /// the key to ask for. The head of the output is true if these rules know the key's form for
    /// certain.
    pub fn bring(&mut self) -> bool {
        self.attempt(|rules| {
            let (form, key): (KeyForm, _) = rules.input.take()?;
            let in_form = asked(Some(&form), &key);
            rules.output.write(&is_known(Some(&form), &key), &in_form);
            Ok(())
        })
    }

    /// Writes the keys to look up for the domains of the input to the output.
    pub fn domains(&mut self) -> bool {
        self.attempt(|rules| {
            let (Domains { lengths, count }, body): (Domains, _) = rules.input.take()?;
            let count = count.get();
            let names = pieces(&lengths, &body)?;
            let names: Result<Vec<&str>, _> = names.iter().map(|name| str::from_utf8(name)).collect();
            let names = names.map_err(|_| Mismatch)?;
            let keys = DomainKeys::new(&names, count)?;
            let named = keys.names().iter().zip(keys.keys().chunks(count)).map(|(asked, keys)| Named {
                names: &asked.names,
                unasked: &asked.unasked,
                lengths: keys.iter().map(|key| key.len()).collect(),
            });
            let named: Vec<Named<'_>> = named.collect();
            let mut body = Zeroizing::new(Vec::with_capacity(keys.keys().iter().map(|key| key.len()).sum()));
            keys.keys().iter().for_each(|key| body.extend_from_slice(key));
            rules.output.write(&named, &body);
            Ok(())
        })
    }

    fn attempt(&mut self, act: impl FnOnce(&mut Self) -> Result<(), Failure>) -> bool {
        act(self).map_err(|failure| self.output.write(&failure, &[])).is_ok()
    }
}
