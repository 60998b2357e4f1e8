//! Tables of claims in the documents, between `<!-- papers: NAME TABLE -->` and `<!-- end -->`.

use std::path::{Path, PathBuf};

use crate::{ALL, Claim, Kind, Origin, Paper, digits};

/// Documents with tables.
pub const DOCUMENTS: [&str; 5] =
    ["README.md", "docs/ive.md", "docs/protocols/pim.md", "docs/embeddings.md", "docs/performance.md"];

const BEGINS: &str = "<!-- papers: ";
const ENDS: &str = "<!-- end -->";

/// Returns the repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Compares a file with its expected text, or writes it if `SPIREA_WRITE_DOCS` is set.
///
/// # Errors
/// The command that writes the file, if the two differ.
pub fn hold(file: &str, expected: &str) -> Result<(), String> {
    let path = root().join(file);
    let found = std::fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
    if found == expected {
        return Ok(());
    }
    if std::env::var_os("SPIREA_WRITE_DOCS").is_some() {
        return std::fs::write(&path, expected).map_err(|error| format!("{file}: {error}"));
    }
    let line =
        1 + found.lines().zip(expected.lines()).take_while(|(found, expected)| found == expected).count();
    Err(format!("{file}: line {line} is stale; run `python3 scripts/papers.py --write`"))
}

/// Replaces the text of a document between `<!-- NAME -->` and `<!-- end -->`.
///
/// # Errors
/// If the mark does not exist or has no end.
pub fn with_part(text: &str, name: &str, part: &str) -> Result<String, String> {
    let mark = format!("<!-- {name} -->\n");
    let (before, rest) = text.split_once(&mark).ok_or_else(|| format!("there is no mark {name:?}"))?;
    let (_, after) = rest.split_once(ENDS).ok_or_else(|| format!("{name}: there is no {ENDS}"))?;
    Ok(format!("{before}{mark}{part}{ENDS}{after}"))
}

/// Returns a document with its tables regenerated.
///
/// # Errors
/// If a mark has no end or names an unknown table.
pub fn with_tables(text: &str) -> Result<String, String> {
    let mut parts = text.split(BEGINS);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").ok_or("a mark without an end")?;
        let (_, rest) = rest.split_once(ENDS).ok_or_else(|| format!("{name}: there is no {ENDS}"))?;
        whole += &format!("{BEGINS}{name} -->\n{}{ENDS}{rest}", table(name)?);
    }
    Ok(whole)
}

/// Returns a table by its name.
fn table(name: &str) -> Result<String, String> {
    if name == "counts" {
        return Ok(counts());
    }
    let unknown = || format!("there is no table {name:?}");
    let (paper, table) = name.split_once(' ').ok_or_else(unknown)?;
    let (_, text) = ALL.into_iter().find(|(known, _)| *known == paper).ok_or_else(unknown)?;
    let paper = Paper::read(text);
    match table {
        "claims" => Ok(claims(&paper)),
        "parameters" => Ok(parameters(&paper)),
        "missing" => Ok(missing(&paper)),
        _ => Err(unknown()),
    }
}

/// Returns the table of claims: rows that are evidence, then fitted ones. Comparisons of the paper
/// with itself are only counted.
fn claims(paper: &Paper) -> String {
    let other = paper.other.as_deref();
    let mut table = String::from("| what | paper | ours | deviation | kind |");
    table += &other.map(|head| format!(" {head} |")).unwrap_or_default();
    table += "\n|---|---:|---:|---:|---|";
    table += if other.is_some() { "---:|\n" } else { "\n" };
    let mut shown: Vec<&Claim> = paper.claims.iter().filter(|claim| claim.kind != Kind::Identity).collect();
    shown.sort_by_key(|claim| Class::of(claim) as usize);
    for claim in shown {
        let mark = if claim.off.is_some() { "**" } else { "" };
        table += &format!(
            "| {} | {} | {} | {mark}{}{mark} | {} |",
            claim.what,
            claim.paper,
            digits(claim.ours),
            claim.deviation_text(),
            claim.kind_text()
        );
        if other.is_some() {
            table += &format!(" {} |", claim.other.map(digits).unwrap_or_default());
        }
        table.push('\n');
    }
    let identities = count(paper, Class::Identity);
    if identities > 0 {
        table += &format!("\nNot shown: {identities} rows that compare the paper with itself.\n");
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for claim in &paper.claims {
        let Some(reason) = claim.off.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, rows)) => rows.push(&claim.what),
            None => reasons.push((reason, vec![&claim.what])),
        }
    }
    if !reasons.is_empty() {
        table += "\nOutside the tolerance, and why:\n\n";
    }
    for (reason, rows) in reasons {
        table +=
            &format!("- {reason}\n{}", rows.iter().map(|row| format!("  - {row}\n")).collect::<String>());
    }
    table
}

fn parameters(paper: &Paper) -> String {
    let mut table = String::from("| parameter | origin | from | no row notices 15% |\n|---|---|---|---|\n");
    for parameter in &paper.parameters {
        let origin = match parameter.origin {
            Origin::Input => "the paper",
            Origin::Elsewhere => "elsewhere",
            Origin::Assumed => "assumed",
            Origin::Fitted => "**fitted**",
        };
        let unnoticed = parameter.unnoticed.as_deref().unwrap_or_default();
        table += &format!("| `{}` | {origin} | {} | {unnoticed} |\n", parameter.key, parameter.from);
    }
    table
}

fn missing(paper: &Paper) -> String {
    paper.missing.iter().map(|missing| format!("- {}: {}\n", missing.what, missing.why)).collect()
}

/// Class of a row. Tables show the classes in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Derived,
    ThroughFits,
    Fitted,
    Identity,
}

impl Class {
    fn of(claim: &Claim) -> Self {
        match claim.kind {
            Kind::Derived if claim.fits.is_empty() => Self::Derived,
            Kind::Derived => Self::ThroughFits,
            Kind::Fitted => Self::Fitted,
            Kind::Identity => Self::Identity,
        }
    }
}

fn count(paper: &Paper, class: Class) -> usize {
    paper.claims.iter().filter(|claim| Class::of(claim) == class).count()
}

fn counts() -> String {
    let mut table = String::from(
        "| paper | derived, moved by no fit | of these within 10% | derived through a fitted value | of these within 10% \
         | fitted, no evidence | the paper with itself, no evidence |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for (name, text) in ALL {
        let paper = Paper::read(text);
        let within = |class| {
            paper.claims.iter().filter(|claim| Class::of(claim) == class && claim.off.is_none()).count()
        };
        table += &format!(
            "| [{}](papers/{name}.toml) | {} | {} | {} | {} | {} | {} |\n",
            paper.title,
            count(&paper, Class::Derived),
            within(Class::Derived),
            count(&paper, Class::ThroughFits),
            within(Class::ThroughFits),
            count(&paper, Class::Fitted),
            count(&paper, Class::Identity)
        );
    }
    table + "\nNot reproduced:\n\n" + &ALL.map(|(_, text)| not_reproduced(&Paper::read(text))).concat()
}

/// Returns a line with the parts of a paper's evaluation that are not reproduced.
fn not_reproduced(paper: &Paper) -> String {
    let parts: Vec<&str> = paper.missing.iter().map(|missing| missing.what.as_str()).collect();
    format!("- {}: {}\n", paper.title, parts.join("; "))
}
