//! The protocol of a build, and the options that some protocols have.

use anyhow::{bail, ensure};
use clap::Args;
use spirea_cpu::CpuBackend;
use spirea_dpf::PrfKind;
use spirea_protocols::choice::{KeyDelivery, Preference, SecurityLevel};
use spirea_protocols::dpf::Words;
use spirea_protocols::planner::{Advice, Needs, Rates};
use spirea_protocols::registry::{Choice, NAMES, ProtocolParams};
use spirea_protocols::table::{LEAST_KEY_QUERIES, MOST_KEY_QUERIES};
use spirea_store::Protocol;

use crate::threads::Threads;

/// The protocol and its parameters.
#[derive(Args)]
pub struct ProtocolOptions {
    /// Protocol: simple, double, exppack-simple, exppack-double, double-pack, hybrid, onion; dpf-xor or dpf-sum, which
    /// two servers answer; or auto, for the one that `spirea plan` recommends.
    #[arg(help_heading = "Protocol", long, default_value = "simple")]
    protocol: String,
    /// What parameter sets must reach: standard, at least 128 bits by the models that count operations; or conservative,
    /// ML-KEM-512 by core-SVP too, for which module-1536, fast and onion-26 are chosen and a weaker --set or --ring is
    /// refused.
    #[arg(help_heading = "Protocol", long, default_value = "standard")]
    security: SecurityLevel,
    /// What the protocol's shape is chosen for: time, the server's; communication, the bytes of a query and its answer
    /// where that takes the server at most 2.1 times as long; or balance, the default.
    #[arg(help_heading = "Protocol", long)]
    prefer: Option<Preference>,
    /// LWE set, if not the level's: module-1280, module-1536, or paper for a uniform public matrix.
    #[arg(help_heading = "Protocol", long)]
    set: Option<String>,
    /// Ring set, if not the protocol's default: fast, small or paper for packing; onion-32, onion-30 or onion-26 for
    /// onion.
    #[arg(help_heading = "Protocol", long)]
    ring: Option<String>,
    /// Pseudorandom function of dpf-xor and dpf-sum: aes-128, the default, chacha20, chacha12, salsa20, salsa12, sha-256; or
    /// siphash or highwayhash, with --accept-weak-prf.
    #[arg(help_heading = "Protocol", long)]
    prf: Option<PrfKind>,
    /// Take a pseudorandom function that has little cryptanalysis behind it.
    #[arg(help_heading = "Protocol", long)]
    accept_weak_prf: bool,
    /// How the evaluation keys of a client reach the server: registered, once; or per-query, with each query of
    /// exppack-simple, exppack-double or hybrid, whose secret is used for nothing else, so that of what a query holds
    /// only the version links it to others. Without it, registered, and with --protocol auto whichever is better.
    #[arg(help_heading = "Protocol", long, value_name = "WAY")]
    keys: Option<KeyDelivery>,
    /// Bits of the words of dpf-sum: 32, the default, or 64.
    #[arg(help_heading = "Protocol", long, value_name = "32|64")]
    word_bits: Option<u32>,
    /// Bins of as many records each, of dpf-xor and dpf-sum: a query brings a record of each for the work of one, and is as
    /// many keys long. Such a table has no deltas: changes make a new base.
    #[arg(help_heading = "Protocol", long, default_value_t = 1)]
    bins: usize,
    /// Most queries that a client sends under one set of registered keys, 64 to 1024; 1024 by default. A shorter life reveals less
    /// when an answer is refused, and links fewer queries; clients upload keys more often.
    #[arg(help_heading = "Protocol", long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(LEAST_KEY_QUERIES..=MOST_KEY_QUERIES))]
    pub key_queries: Option<u64>,
}

/// An option that is not for every protocol.
struct Particular {
    flag: &'static str,
    is_given: fn(&ProtocolOptions) -> bool,
    /// Tests that a protocol with these parameters uses it.
    is_used: fn(&ProtocolParams) -> bool,
}

/// The options that are not for every protocol.
const PARTICULAR: [Particular; 8] = [
    Particular {
        flag: "--prefer",
        is_given: |options| options.prefer.is_some(),
        is_used: |params| params.parties() == 1,
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
        is_used: |params| params.key_delivery().is_some(),
    },
    Particular {
        flag: "--word-bits",
        is_given: |options| options.word_bits.is_some(),
        is_used: |params| matches!(params, ProtocolParams::DpfSum(_)),
    },
    Particular {
        flag: "--key-queries",
        is_given: |options| options.key_queries.is_some(),
        is_used: |params| params.key_shape().is_some(),
    },
];

impl ProtocolOptions {
    /// The protocol that was asked for.
    pub fn protocol(&self, threads: Threads) -> anyhow::Result<Protocol> {
        if self.protocol == "auto" { self.planned(threads) } else { self.named().map(Protocol::Named) }
    }

    /// The protocol that the planner recommends.
    fn planned(&self, threads: Threads) -> anyhow::Result<Protocol> {
        let chosen = ["--set", "--ring", "--prf", "--accept-weak-prf", "--word-bits"];
        let given = PARTICULAR.iter().filter(|option| (option.is_given)(self)).map(|option| option.flag);
        let given = given
            .chain((self.bins > 1).then_some("--bins"))
            .find(|flag| *flag == "--bins" || chosen.contains(flag));
        if let Some(flag) = given {
            bail!(
                "--protocol auto chooses the parameter sets of one server too: leave {flag} away, or name a protocol"
            );
        }
        let rates = Rates::measure(&CpuBackend::new(threads.count())?, &self.security.ring_sets())?;
        let (security, prefer, keys) = (self.security, self.prefer.unwrap_or_default(), self.keys);
        let needs = Needs { security, prefer, keys, ..Needs::default() };
        Ok(Protocol::Planned(Advice { needs, rates }))
    }

    /// The protocol that has a name.
    fn named(&self) -> anyhow::Result<Choice> {
        let words = match self.word_bits {
            None | Some(32) => Words::U32,
            Some(64) => Words::U64,
            _ => bail!("--word-bits must be 32 or 64"),
        };
        let choice = Choice {
            protocol: self.protocol.clone(),
            set: self.set.clone(),
            ring: self.ring.clone(),
            security: self.security,
            prefer: self.prefer.unwrap_or_default(),
            prf: self.prf.unwrap_or_default(),
            words,
            bins: self.bins,
            keys: self.keys.unwrap_or_default(),
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

    /// Refuses options that the protocol has no use for.
    fn refuse_unused(&self, choice: &Choice) -> anyhow::Result<()> {
        ProtocolParams::check(choice)?;
        // The options that a protocol uses are those of any table.
        let sample = |choice: &Choice| ProtocolParams::choose(choice, [0; 32], choice.bins as u64 + 1, 32);
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
                    "{flag} is for {}, and {}{way} has no use for it: leave it away, or name another protocol",
                    users.join(", "),
                    self.protocol
                );
            }
        }
        Ok(())
    }
}
