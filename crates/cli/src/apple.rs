//! Options of `spirea build` for tables that Apple's clients look up, and texts that describe these
//! tables.

use clap::{Args, ValueEnum};
use serde::Serialize;
use spirea_apple::keyword::Tables;
use spirea_apple::{Compression, Set, Sizes};
use spirea_console::output::bytes;
use spirea_store::{AppleOptions, Manifest, UseCaseEntry};

/// Clients besides those of Spirea.
#[derive(Clone, Copy, ValueEnum)]
pub enum Audience {
    /// Live Caller ID Lookup.
    Apple,
}

/// Parameter sets, named by the number of bits that a coefficient of a plaintext holds.
#[derive(Clone, Copy, ValueEnum)]
enum AppleSet {
    /// 3 bits.
    #[value(name = "n_4096_logq_27_28_28_logt_4")]
    Logt4,
    /// 4 bits.
    #[value(name = "n_4096_logq_27_28_28_logt_5")]
    Logt5,
    /// 5 bits.
    #[value(name = "n_4096_logq_27_28_28_logt_6")]
    Logt6,
}

impl From<AppleSet> for Set {
    fn from(set: AppleSet) -> Self {
        match set {
            AppleSet::Logt4 => Self::Logt4,
            AppleSet::Logt5 => Self::Logt5,
            AppleSet::Logt6 => Self::Logt6,
        }
    }
}

/// Options for tables of other clients.
#[derive(Args)]
pub struct AudienceOptions {
    /// Also make tables for Apple's clients (Live Caller ID Lookup) from the same rows: --key is
    /// the column of the numbers, as +14155550100 or with --normalise e164, and --value names
    /// columns called name, icon (HEIC, or Base64 of it), category (person or business),
    /// cache_minutes and block (1 or 0).
    #[arg(
        help_heading = "Apple's clients",
        long = "for",
        value_enum,
        value_name = "CLIENTS",
        requires = "bundle"
    )]
    audience: Option<Audience>,
    /// Bundle identifier of the application's extension, such as net.example.lookup: the use cases
    /// are net.example.lookup.identity and net.example.lookup.block.
    #[arg(help_heading = "Apple's clients", long, value_name = "NAME", requires = "audience")]
    bundle: Option<String>,
    /// Parameter set of Apple's clients.
    #[arg(
        help_heading = "Apple's clients",
        long,
        value_enum,
        value_name = "SET",
        default_value = "n_4096_logq_27_28_28_logt_5",
        requires = "audience"
    )]
    apple_set: AppleSet,
    /// Parts of each use case. A look-up shows its part to the server and takes the time of one
    /// part.
    #[arg(
        help_heading = "Apple's clients",
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        requires = "audience"
    )]
    apple_shards: usize,
}

/// Cost of a look-up by Apple's clients, for programs.
#[derive(Serialize)]
pub struct ApplePlan {
    protocol: &'static str,
    params: &'static str,
    recommended: bool,
    upload_bytes: usize,
    download_bytes: usize,
    keys_bytes: usize,
    memory_bytes: u64,
}

impl ApplePlan {
    /// Returns the plan for one shard of `keywords` numbers. Their values have `value_bytes` bytes
    /// in total, and the longest has `longest` bytes. The server's time is not predicted.
    ///
    /// # Errors
    /// A message, if no table can hold the values.
    pub fn new(keywords: u64, value_bytes: u64, longest: u64) -> anyhow::Result<Self> {
        let [keywords, value_bytes, longest] =
            [keywords, value_bytes, longest].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let set = Set::Logt5;
        let shape = Tables::least_shape(set, 2, keywords, value_bytes, longest)?;
        let Sizes { query_bytes, response_bytes, key_bytes, memory_bytes } =
            Sizes::of(&shape, Compression::None);
        Ok(Self {
            protocol: "apple",
            params: set.name(),
            recommended: false,
            upload_bytes: query_bytes,
            download_bytes: response_bytes,
            keys_bytes: key_bytes,
            memory_bytes,
        })
    }

    /// Returns the cells of a row of `spirea plan`: name, upload, download, keys, hint, server,
    /// memory, look-up.
    pub fn cells(&self) -> [String; 8] {
        let Self { protocol, upload_bytes, download_bytes, keys_bytes, memory_bytes, .. } = *self;
        let [upload, download, keys] =
            [upload_bytes, download_bytes, keys_bytes].map(|number| bytes(number as u64));
        let unknown = || "-".to_owned();
        [protocol.into(), upload, download, keys, bytes(0), unknown(), bytes(memory_bytes), unknown()]
    }
}

impl AudienceOptions {
    /// Returns the tables to build for Apple's clients, if any.
    pub fn apple(&self) -> Option<AppleOptions> {
        let (Audience::Apple, bundle) = self.audience.zip(self.bundle.clone())?;
        Some(AppleOptions { bundle, set: self.apple_set.into(), shards: self.apple_shards })
    }
}

/// Describes the tables of a snapshot for Apple's clients, one text for each use case.
pub fn explain_apple(manifest: &Manifest) -> Vec<String> {
    let Some(apple) = &manifest.apple else { return Vec::new() };
    let describe = |use_case: &UseCaseEntry| {
        let parts = use_case.shards.len();
        let most = use_case.shards.iter().map(|shard| use_case.tables * shard.buckets * shard.bucket_bytes);
        format!(
            "{}: {} numbers, set {}, {parts} shard{} of {} at most",
            use_case.name,
            use_case.keywords,
            apple.set,
            if parts == 1 { "" } else { "s" },
            bytes(most.max().unwrap_or(0) as u64)
        )
    };
    apple.use_cases.iter().map(describe).collect()
}
