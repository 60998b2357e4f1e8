//! `spirea inspect`.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use spirea_console::output::{bytes, print_line};
use spirea_console::status::Status;
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::keyword::{Copies, FALSE_MATCH_LOG2};
use spirea_protocols::parameters::{Claim, Failure, FirstFold, Stored};
use spirea_protocols::proof::Proofs;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::table::{FieldType, KeyForm};
use spirea_protocols::{Sizes, Table, TableKind};
use spirea_store::manifest::WithoutLongest;
use spirea_store::repository::VERSIONS;
use spirea_store::{Manifest, Repository, Snapshot, Statistics};

use crate::apple::explain_apple;
use crate::forms::spelled;
use crate::leaks::{Report, SetSecurity, set_securities};
use crate::progress::Bars;
use crate::publish;

/// Options of `spirea inspect`.
#[derive(Args)]
pub struct Options {
    /// The folder of a snapshot, or of a repository, whose versions are shown.
    snapshot: PathBuf,
    /// Also read every file and check its hash.
    #[arg(long)]
    verify: bool,
    /// Also report what each party to a look-up learns, and what it does not learn; for a
    /// repository, of its newest version.
    #[arg(long)]
    leaks: bool,
    /// The manifest as one JSON object, with the security of its parameter sets; with --leaks what
    /// each party learns.
    #[arg(long)]
    json: bool,
}

/// A manifest for programs, with values derived from it.
#[derive(Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    manifest: &'a Manifest,
    /// Security of each lattice parameter set in use.
    security: Vec<SetSecurity>,
}

/// Explains a snapshot or a repository.
pub fn run(options: &Options) -> anyhow::Result<Status> {
    if options.snapshot.join(VERSIONS).is_dir() {
        return inspect_repository(options);
    }
    let snapshot = Snapshot::open(&options.snapshot)?;
    if options.verify {
        snapshot.verify(&Bars::new())?;
    }
    if options.json && options.leaks {
        print_line(&serde_json::to_string(&Report::of_snapshot(&snapshot)?)?)?;
    } else if options.json {
        let manifest = snapshot.manifest();
        let security = set_securities(std::iter::once(&manifest.protocol));
        print_line(&serde_json::to_string(&Described { manifest, security })?)?;
    } else {
        for (label, text) in explain(&snapshot) {
            print_line(&format!("{label:>16}  {text}"))?;
        }
        if options.verify {
            print_line(&format!("{:>16}  every file matches its hash", "verified"))?;
        }
        if options.leaks {
            print_report(&Report::of_snapshot(&snapshot)?)?;
        }
    }
    Ok(Status::SUCCESS)
}

/// Lists the versions of a repository.
fn inspect_repository(options: &Options) -> anyhow::Result<Status> {
    ensure!(
        !options.json || options.leaks,
        "--json shows the manifest of a snapshot: name one of those in bases/ or deltas/"
    );
    let records = Repository::list(&options.snapshot)?;
    if !options.json {
        publish::list(&records)?;
    }
    if options.verify {
        for record in &records {
            record.snapshots().try_for_each(|snapshot| snapshot.verify(&Bars::new()))?;
        }
    }
    if options.verify && !options.json {
        print_line("every file matches its hash")?;
    }
    match records.first().filter(|_| options.leaks).map(Report::of_version) {
        Some(report) if options.json => print_line(&serde_json::to_string(&report)?)?,
        Some(report) => print_report(&report)?,
        None => {}
    }
    Ok(Status::SUCCESS)
}

fn print_report(report: &Report) -> anyhow::Result<()> {
    print_line("")?;
    report.lines().iter().try_for_each(|line| print_line(line))
}

/// Explains a snapshot to a person: labels with texts.
pub fn explain(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let manifest = snapshot.manifest();
    let Manifest { table, protocol, statistics, .. } = manifest;
    let sizes = protocol.sizes;
    let found = match table.kind {
        TableKind::Index => format!(
            "by index, 0 to {}{}",
            table.entries - 1,
            match table.has_buckets() {
                true => format!(", in {} buckets", table.records),
                false => String::new(),
            }
        ),
        TableKind::Keyword => {
            format!(
                "by key, in {} buckets{}; an absent key is found with probability below 2^{FALSE_MATCH_LOG2}",
                table.records,
                match table.copies {
                    Copies::One => String::new(),
                    copies => format!(", {copies} copies of each"),
                }
            )
        }
    };
    let contents = match table.fields.as_slice() {
        [] => format!("a set of {} keys, {found}", table.entries),
        _ => format!("{} values of {}, {found}", table.entries, explain_fields(table)),
    };
    let [rows, columns] = protocol.stored.shape();
    let elements = match protocol.stored {
        Stored::Panels { .. } => "bytes".into(),
        Stored::Units { grid } => format!("units of {}", bytes(grid.unit_rows as u64)),
    };
    let function = protocol.prf().map(|prf| ("function", format!("{prf}: {}", prf.trust())));
    let mut lines = vec![
        ("name", manifest.name.clone()),
        ("version", snapshot.version().to_string()),
        ("created", manifest.created.clone()),
        ("table", contents),
        (
            "values",
            format!(
                "{} in all, {}",
                bytes(statistics.value_bytes),
                match statistics.longest_value_row {
                    Some(row) => format!("the longest {} (row {row})", bytes(statistics.longest_value_bytes)),
                    None => format!("none above {}", bytes(statistics.longest_value_bytes)),
                }
            ),
        ),
        (
            "records",
            format!(
                "{}: padded {:.2} times; stored {:.2} for each byte of {}",
                explain_records(table),
                manifest.padding(),
                manifest.expansion(),
                if table.kind == TableKind::Keyword { "tags and values" } else { "values" }
            ),
        ),
        ("longest value", explain_longest(table, statistics)),
        (
            "protocol",
            format!("{}, set {}, {:.0}-bit security", protocol.name, protocol.set, protocol.security_bits),
        ),
    ];
    lines.extend(table.key_form.as_ref().map(|form| ("form of keys", explain_form(form))));
    lines.extend(protocol.key_delivery.map(|delivery| ("keys", explain_delivery(delivery).into())));
    lines.extend(set_securities(std::iter::once(protocol)).iter().map(|set| ("security", explain_set(set))));
    lines.extend(explain_bins(protocol).map(|bins| ("bins", bins)));
    lines.extend([
        ("matrix", format!("{rows} x {columns} {elements}, {} in all", bytes(protocol.matrix_bytes()))),
        (
            "a look-up",
            format!(
                "query {}, answer {}{}{}",
                bytes(sizes.query_bytes as u64),
                bytes(sizes.answer_bytes as u64),
                if protocol.parties == 1 { "" } else { ", with each of two servers" },
                once(sizes)
            ),
        ),
        ("anonymity set", format!("all {} values: {}", table.entries, unable(protocol.parties))),
        (
            "wrong decoding",
            match protocol.failure {
                None => "never: there is no noise".into(),
                Some(Failure { log2, claim: Claim::Bound }) => {
                    let worst = protocol.worst_failure.filter(|worst| worst.log2 > log2);
                    let holds = worst.map_or_else(
                        || "every database".into(),
                        |worst| {
                            format!(
                                "content that was fixed before the public matrix; below 2^{:.0} for every database, a bound",
                                worst.log2
                            )
                        },
                    );
                    format!("probability below 2^{log2:.0} for a record, a bound for {holds}")
                }
                Some(Failure { log2, claim: Claim::Estimate }) => format!(
                    "probability about 2^{log2:.0} for a record, an estimate: for content that was not chosen after the public matrix"
                ),
            },
        ),
    ]);
    lines.extend(table.proofs.as_ref().map(|proofs| ("proofs", explain_proofs(table, proofs))));
    lines.extend(function);
    lines.extend(explain_apple(manifest).into_iter().map(|text| ("Apple's clients", text)));
    lines
}

/// Formats the names of the fields with their types.
fn explain_fields(table: &Table) -> String {
    let types = table.types.iter().map(Some).chain(std::iter::repeat(None));
    let field = |(name, kind): (&String, Option<&FieldType>)| match kind {
        Some(kind) => format!("{name} ({kind})"),
        None => name.clone(),
    };
    table.fields.iter().zip(types).map(field).collect::<Vec<_>>().join(", ")
}

/// Formats the form of keys, with the versions of its rules.
fn explain_form(form: &KeyForm) -> String {
    let unicode = form.unicode.as_ref().map(|version| format!(", by Unicode {version}"));
    let phone_rules =
        form.phone_rules.as_ref().map(|version| format!(", by the rules of libphonenumber {version}"));
    [Some(spelled(form)), unicode, phone_rules].into_iter().flatten().collect()
}

/// Explains how evaluation keys reach the server.
fn explain_delivery(delivery: KeyDelivery) -> &'static str {
    match delivery {
        KeyDelivery::Registered => {
            "registered: a client sends them once, and its queries name them, by which they can be linked. If clients must not depend on the operator's behaviour, build with --keys per-query, or for two servers (dpf-xor)"
        }
        KeyDelivery::PerQuery => {
            "per-query: every query brings its own, under a secret that is used for nothing else; nothing is registered"
        }
    }
}

/// Explains the bins, if there are several.
fn explain_bins(protocol: &ProtocolParams) -> Option<String> {
    let bins = protocol.bins;
    (bins > 1).then(|| match protocol.first_fold {
        FirstFold::Rows { domain, .. } => format!(
            "{bins} of {} records each, the last filled up: a query has a key of {} for each, and brings a record of each",
            domain.points(),
            bytes(domain.key_bytes() as u64)
        ),
        FirstFold::Bytes | FirstFold::Polynomials(_) => format!(
            "{bins}, to which runs of {} records are dealt in turn: a query brings a record of each",
            protocol.grid.records_per_unit()
        ),
    })
}

/// Formats the number and size of the records.
pub fn explain_records(table: &Table) -> String {
    format!("{} of {}", table.records, bytes(table.record_bytes() as u64))
}

/// Formats the cost of the longest values, and the maximum length of values in changes.
pub fn explain_longest(table: &Table, statistics: &Statistics) -> String {
    let takes = format!("the table takes values of up to {}", bytes(table.value_limit() as u64));
    match &statistics.without_longest {
        Some(WithoutLongest { longest_value_bytes, record_bytes }) => format!(
            "a record has {}; without the longest hundredth of the values, which end at {}, it would have {}; {takes}",
            bytes(table.record_bytes() as u64),
            bytes(*longest_value_bytes),
            bytes(*record_bytes)
        ),
        None => takes,
    }
}

/// Formats the cost of attacks on a parameter set.
fn explain_set(security: &SetSecurity) -> String {
    let SetSecurity { set, matzov, bdgl16, core_svp, at_least_ml_kem_512 } = security;
    let beside =
        if *at_least_ml_kem_512 { "no figure below ML-KEM-512's" } else { "not all of ML-KEM-512's" };
    format!(
        "{set}: {matzov:.1} bits under MATZOV, {bdgl16:.1} under BDGL16, {core_svp:.1} by core-SVP; {beside}"
    )
}

/// Formats the size of inclusion proofs.
fn explain_proofs(table: &Table, proofs: &Proofs) -> String {
    let (proof, record) = (table.proof_bytes(), table.record_bytes());
    format!(
        "each record proves that it is the one built: {} of its {}, {} levels below {} roots",
        bytes(proof as u64),
        bytes(record as u64),
        proofs.levels,
        proofs.roots.len()
    )
}

/// Names the parties that cannot tell which value was asked for.
fn unable(parties: usize) -> &'static str {
    match parties {
        1 => "the server cannot tell which was asked for",
        _ => "neither of the two servers can tell which was asked for, unless they work together",
    }
}

/// Formats the data that a client sends or downloads once.
fn once(sizes: Sizes) -> String {
    let hint = (sizes.hint_bytes > 0)
        .then(|| format!("a hint of {} once for this version", bytes(sizes.hint_bytes)));
    let keys =
        (sizes.keys_bytes > 0).then(|| format!("keys of {} sent once", bytes(sizes.keys_bytes as u64)));
    hint.into_iter().chain(keys).map(|part| format!("; {part}")).collect()
}
