//! Protocol of a build, and the options that only some protocols have.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::{bail, ensure};
use clap::Args;
use spirea_backend::PANEL_ROWS;
use spirea_console::output::{bytes, explained, seconds};
use spirea_console::threads::Threads;
use spirea_dpf::PrfKind;
use spirea_math::random::Seed;
use spirea_protocols::Table;
use spirea_protocols::choice::{HintForm, KeyDelivery, Preference, QueryForm, SecurityLevel};
use spirea_protocols::dpf::Words;
use spirea_protocols::keyword::Copies;
use spirea_protocols::planner::{Figures, Needs, Recommendation};
use spirea_protocols::registry::{AnyParams, Choice, NAMES, ProtocolParams};
use spirea_protocols::table::{LEAST_KEY_QUERIES, MOST_KEY_QUERIES};
use spirea_store::{Chooser, Protocol, StoreError};

use crate::rates::Source;

/// Options for the protocol and its parameters.
#[derive(Args)]
pub struct ProtocolOptions {
    /// Protocol: simple, double, exppack-simple, exppack-double, double-pack, hybrid, onion;
    /// dpf-xor or dpf-sum, which two servers answer; or auto, for the single-server protocol that
    /// `spirea plan` recommends for the table and this machine. The default is auto, but a snapshot
    /// that is replaced (--overwrite) keeps its protocol.
    #[arg(help_heading = "Protocol", long)]
    protocol: Option<String>,
    /// Choose by the rates in this file, which `spirea plan --save-rates` wrote, instead of
    /// measuring this machine once; the variable SPIREA_RATES names such a file for all commands.
    #[arg(help_heading = "Protocol", long, value_name = "FILE")]
    rates: Option<PathBuf>,
    /// Security that parameter sets must reach: standard, the default, at least 128 bits by the
    /// models that count operations; or conservative, ML-KEM-512 by core-SVP too, for which
    /// module-1536, fast and onion-26 are chosen and a weaker --set or --ring is refused.
    #[arg(help_heading = "Protocol", long)]
    security: Option<SecurityLevel>,
    /// Aim of the protocol's shape: time, for the least time of the server; communication, for the
    /// fewest bytes of a query and its answer that take the server at most 2.1 times as long; or
    /// balance, the default.
    #[arg(help_heading = "Protocol", long)]
    prefer: Option<Preference>,
    /// LWE set, if not the level's: module-1280, module-1536, or paper for a uniform public matrix.
    #[arg(help_heading = "Parameters", long)]
    set: Option<String>,
    /// Ring set, if not the protocol's default: fast, brief, small or paper for packing;
    /// onion-32, onion-30 or onion-26 for onion.
    #[arg(help_heading = "Parameters", long)]
    ring: Option<String>,
    /// Pseudorandom function of dpf-xor and dpf-sum: aes-128, the default, chacha20, chacha12,
    /// salsa20, salsa12, sha-256; or siphash or highwayhash, with --accept-weak-prf.
    #[arg(help_heading = "Parameters", long)]
    prf: Option<PrfKind>,
    /// Accept a pseudorandom function that has had little cryptanalysis.
    #[arg(help_heading = "Parameters", long)]
    accept_weak_prf: bool,
    /// Delivery of a client's evaluation keys to the server: registered, once; or per-query, with
    /// each query of exppack-simple, exppack-double or hybrid. The secret of such a query is used
    /// for nothing else, so of its contents only the version links it to other queries. The default
    /// is registered; with --protocol auto, whichever is better.
    #[arg(help_heading = "Protocol", long, value_name = "WAY")]
    keys: Option<KeyDelivery>,
    /// Form of the hint of simple and double: rounded, the default, to the fewest bits that are
    /// right for every table; or whole, about twice as long, for clients that do not know rounded
    /// hints.
    #[arg(help_heading = "Parameters", long, value_name = "FORM")]
    hint: Option<HintForm>,
    /// Form of queries that bring their keys: short, the default; or whole, about twice as long,
    /// for clients that do not know short queries.
    #[arg(help_heading = "Parameters", long, value_name = "FORM")]
    queries: Option<QueryForm>,
    /// Bits of the words of dpf-sum: 32, the default, or 64.
    #[arg(help_heading = "Parameters", long, value_name = "32|64")]
    word_bits: Option<u32>,
    /// Number of bins, each with about the same number of records, for exppack-simple, dpf-xor and
    /// dpf-sum: a query returns one record from each bin for one pass over the table, and grows
    /// with the number of bins. Such a table has no deltas: changes make a new base.
    #[arg(help_heading = "Parameters", long)]
    bins: Option<usize>,
    /// Copies of each entry of a table with keys and bins, 1 or 3, each in a bucket of its own.
    /// With three, one query brings nearly all of 50 keys from 75 bins, instead of 37; the table is
    /// stored three times. Without it 1, but a snapshot that is replaced (--overwrite) keeps its
    /// number.
    #[arg(help_heading = "Parameters", long, value_name = "1|3")]
    copies: Option<Copies>,
    /// Maximum number of queries that a client sends under one set of registered keys, 64 to 1024;
    /// 1024 by default. A shorter life reveals less when an answer is refused, and links fewer
    /// queries; clients upload keys more often.
    #[arg(help_heading = "Protocol", long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(LEAST_KEY_QUERIES..=MOST_KEY_QUERIES))]
    pub key_queries: Option<u64>,
}

/// An option that only some protocols use.
struct Particular {
    flag: &'static str,
    is_given: fn(&ProtocolOptions) -> bool,
    /// True if a protocol with these parameters uses the option.
    is_used: fn(&ProtocolParams) -> bool,
}

/// The options that only some protocols use.
const PARTICULAR: [Particular; 9] = [
    Particular {
        flag: "--prefer",
        is_given: |options| options.prefer.is_some(),
        is_used: |params| params.parties == 1,
    },
    Particular {
        flag: "--set",
        is_given: |options| options.set.is_some(),
        is_used: |params| params.choice().set.is_some(),
    },
    Particular {
        flag: "--ring",
        is_given: |options| options.ring.is_some(),
        is_used: |params| params.choice().ring.is_some(),
    },
    Particular {
        flag: "--prf",
        is_given: |options| options.prf.is_some(),
        is_used: |params| params.prf().is_some(),
    },
    Particular {
        flag: "--accept-weak-prf",
        is_given: |options| options.accept_weak_prf,
        is_used: |params| params.prf().is_some(),
    },
    Particular {
        flag: "--keys",
        is_given: |options| options.keys.is_some(),
        is_used: |params| params.key_delivery.is_some(),
    },
    Particular {
        flag: "--hint",
        is_given: |options| options.hint.is_some(),
        is_used: |params| params.hint_lasts(),
    },
    Particular {
        flag: "--word-bits",
        is_given: |options| options.word_bits.is_some(),
        is_used: |params| matches!(params.any(), AnyParams::DpfSum(_)),
    },
    Particular {
        flag: "--key-queries",
        is_given: |options| options.key_queries.is_some(),
        is_used: |params| params.key_shape.is_some(),
    },
];

/// Options that `auto` leaves to the planner.
const PLANNED: [&str; 6] = ["--set", "--ring", "--prf", "--accept-weak-prf", "--hint", "--word-bits"];

/// A protocol for a build, and the reason for it.
pub struct Decision {
    /// Protocol, or the planner that chooses it.
    pub protocol: Protocol,
    reason: Reason,
}

enum Reason {
    /// The user named the protocol.
    Named,
    /// The replaced snapshot has this protocol.
    Kept(String),
    /// The planner recommends the protocol.
    Recommended(Arc<Automatic>),
}

impl Decision {
    /// Returns the reason, once the build is done, unless the user named the protocol.
    pub fn reason(&self) -> Option<String> {
        match &self.reason {
            Reason::Named => None,
            Reason::Kept(protocol) => Some(format!(
                "{protocol}, the protocol of the snapshot that was replaced; --protocol auto would choose anew"
            )),
            Reason::Recommended(automatic) => automatic.reason.get().cloned(),
        }
    }
}

/// Chooser that follows the planner for the table at hand.
#[derive(Debug)]
struct Automatic {
    needs: Needs,
    source: Source,
    /// Reason for the protocol, once it is chosen.
    reason: OnceLock<String>,
}

impl Chooser for Automatic {
    fn choose(&self, records: u64, record_bytes: usize) -> Result<Choice, StoreError> {
        let settled = match self.source {
            Source::Machine { .. } => self.needs.recommend_for_all_machines(records, record_bytes),
            Source::File(_) => None,
        };
        let (recommendation, bound) = match settled {
            Some(recommendation) => (recommendation, "at least "),
            None => {
                let rates = self.source.rates().map_err(|error| StoreError::BadOption(explained(&error)))?;
                (self.needs.recommend(records, record_bytes, &rates)?, "")
            }
        };
        // If the reason is set already, a former call for the same table has set it.
        let _ = self.reason.set(describe(&recommendation, bound));
        Ok(recommendation.choice)
    }
}

/// Formats the reason for a recommendation in one line. The text `bound` is put before the times of
/// other protocols.
fn describe(recommendation: &Recommendation, bound: &str) -> String {
    /// Number of other protocols to name.
    const OTHERS: usize = 3;
    let Recommendation { figures, others, .. } = recommendation;
    let once = |figures: &Figures| {
        let sizes = figures.sizes;
        let hint = (sizes.hint_bytes > 0).then(|| format!("a hint of {}", bytes(sizes.hint_bytes)));
        hint.or((sizes.keys_bytes > 0).then(|| format!("keys of {}", bytes(sizes.keys_bytes as u64))))
    };
    let first = match once(figures) {
        Some(once) if figures.sizes.hint_bytes > 0 => format!("{once} for each version, and "),
        Some(once) => format!("nothing before (it sends {once} once), and "),
        None => "nothing before, and ".into(),
    };
    let other = |other: &Figures| {
        let once = once(other).map_or_else(String::new, |once| format!(" with {once}"));
        format!("{} {bound}{}{once}", other.params.name, seconds(other.lookup_seconds))
    };
    let others: Vec<_> = others.iter().take(OTHERS).map(other).collect();
    let others = if others.is_empty() { String::new() } else { format!("; others: {}", others.join(", ")) };
    format!(
        "{}, whose look-ups take a client the least time, {} over a usual line; a client downloads {first}{} for each look-up{others}",
        figures.params.name,
        seconds(figures.lookup_seconds),
        bytes(figures.sizes.answer_bytes as u64),
    )
}

impl ProtocolOptions {
    /// Returns the protocol that the user named, else the protocol of the snapshot to replace, else
    /// the planner. `tell` receives a line before the machine is measured.
    pub fn decide(
        &self,
        former: Option<&ProtocolParams>,
        threads: Threads,
        tell: fn(&str),
    ) -> anyhow::Result<Decision> {
        match (self.protocol.as_deref(), former) {
            (None, Some(former)) => {
                let protocol = Protocol::Named(self.kept(former)?);
                Ok(Decision { protocol, reason: Reason::Kept(former.name.into()) })
            }
            (None | Some("auto"), _) => self.planned(threads, tell),
            (Some(name), _) => {
                let choice = Choice { protocol: name.into(), ..Choice::default() };
                Ok(Decision { protocol: Protocol::Named(self.changed(choice)?), reason: Reason::Named })
            }
        }
    }

    /// Returns the copies of each entry: the given number, or that of the replaced table, whose
    /// protocol stays too.
    pub fn copies(&self, former: Option<&Table>) -> Copies {
        let kept = former.filter(|_| self.protocol.is_none()).map(|table| table.copies);
        self.copies.or(kept).unwrap_or_default()
    }

    /// Returns the protocol that the planner recommends.
    fn planned(&self, threads: Threads, tell: fn(&str)) -> anyhow::Result<Decision> {
        let given = PARTICULAR.iter().filter(|option| (option.is_given)(self)).map(|option| option.flag);
        let bins = self.bins.filter(|bins| *bins != 1).map(|_| "--bins");
        let queries = self.queries.map(|_| "--queries");
        if let Some(flag) = given.filter(|flag| PLANNED.contains(flag)).chain(bins).chain(queries).next() {
            bail!(
                "--protocol auto, the default, chooses the parameters of one server too: leave {flag} away, or name a protocol"
            );
        }
        let (security, prefer) = (self.security.unwrap_or_default(), self.prefer.unwrap_or_default());
        let needs = Needs { security, prefer, keys: self.keys, ..Needs::default() };
        let source = Source::of(self.rates.as_deref(), threads, tell)?;
        let automatic = Arc::new(Automatic { needs, source, reason: OnceLock::new() });
        let chooser: Arc<dyn Chooser> = Arc::clone(&automatic) as _;
        Ok(Decision { protocol: Protocol::Chosen(chooser), reason: Reason::Recommended(automatic) })
    }

    /// Returns the choice that leads to the former parameters, changed by the given options.
    fn kept(&self, former: &ProtocolParams) -> anyhow::Result<Choice> {
        let choice = former.repeated();
        // Another security level chooses its own sets.
        self.changed(match self.security {
            Some(_) => Choice { set: None, ring: None, ..choice },
            None => choice,
        })
    }

    /// Applies the given options to a choice.
    fn changed(&self, choice: Choice) -> anyhow::Result<Choice> {
        let words = match self.word_bits {
            None => choice.words,
            Some(32) => Words::U32,
            Some(64) => Words::U64,
            Some(_) => bail!("--word-bits must be 32 or 64"),
        };
        let choice = Choice {
            set: self.set.clone().or(choice.set),
            ring: self.ring.clone().or(choice.ring),
            security: self.security.unwrap_or(choice.security),
            prefer: self.prefer.unwrap_or(choice.prefer),
            prf: self.prf.unwrap_or(choice.prf),
            words,
            bins: self.bins.unwrap_or(choice.bins),
            keys: self.keys.unwrap_or(choice.keys),
            queries: self.queries.unwrap_or(choice.queries),
            hint: self.hint.unwrap_or(choice.hint),
            protocol: choice.protocol,
        };
        self.refuse_unused(&choice)?;
        ensure!(
            self.accept_weak_prf || !choice.prf.needs_consent(),
            "--prf {}: {} What servers learn rests on it: choose another, or confirm with --accept-weak-prf",
            choice.prf,
            choice.prf.trust()
        );
        Ok(choice)
    }

    /// Refuses options that the protocol does not use.
    fn refuse_unused(&self, choice: &Choice) -> anyhow::Result<()> {
        ensure!(self.rates.is_none(), "--rates is for --protocol auto: omit it with {}", choice.protocol);
        ensure!(
            self.queries.is_none() || choice.keys == KeyDelivery::PerQuery,
            "--queries is the form of queries that bring their keys: add --keys per-query, or omit it"
        );
        ProtocolParams::check(choice)?;
        // A sample table suffices, since a protocol uses the same options for every table. With
        // records of `PANEL_ROWS` bytes, every protocol has a shape for any number of bins.
        let sample = |choice: &Choice| {
            ProtocolParams::choose(choice, Seed::new([0; 32]), choice.bins as u64 + 1, PANEL_ROWS)
        };
        let own = sample(choice)?;
        let is_user = |protocol: &str, is_used: fn(&ProtocolParams) -> bool| {
            let other = Choice { protocol: protocol.into(), ..Choice::default() };
            sample(&other).is_ok_and(|params| is_used(&params))
        };
        for Particular { flag, is_given, is_used } in PARTICULAR {
            if is_given(self) && !is_used(&own) {
                let users: Vec<_> = NAMES.into_iter().filter(|name| is_user(name, is_used)).collect();
                let way = match choice.keys {
                    KeyDelivery::Registered => "",
                    KeyDelivery::PerQuery => " with --keys per-query",
                };
                bail!(
                    "{flag} is for {}, and {}{way} has no use for it: omit it, or name another protocol",
                    users.join(", "),
                    choice.protocol
                );
            }
        }
        Ok(())
    }
}
