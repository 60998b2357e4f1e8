//! Claims of papers, compared with this project's values: one file per paper, the rules of
//! `papers/README.md`, the tables in the documents.
//!
//! [`Paper`] reads a file, [`check`] compares a model with it, [`documents`] writes the tables.

pub mod check;
pub mod documents;

use serde::{Deserialize, Serialize};

/// File of IM-PIR.
pub const IM_PIR: &str = include_str!("../im-pir.toml");
/// File of IVE.
pub const IVE: &str = include_str!("../ive.toml");
/// File of GPU-DPF.
pub const GPU_DPF: &str = include_str!("../gpu-dpf.toml");
/// File of VIPIR.
pub const VIPIR: &str = include_str!("../vipir.toml");
/// File of GPIR.
pub const GPIR: &str = include_str!("../gpir.toml");

/// All files by name, in the order of the tables.
pub const ALL: [(&str, &str); 5] =
    [("im-pir", IM_PIR), ("ive", IVE), ("gpu-dpf", GPU_DPF), ("vipir", VIPIR), ("gpir", GPIR)];

/// Origin of this project's value for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Computed from parameters that were not fitted to this row.
    Derived,
    /// Computed from a parameter that was chosen to bring this row near the paper's value.
    Fitted,
    /// Compared with another value of the paper itself; never evidence.
    Identity,
}

impl Kind {
    /// Returns the largest deviation, as a fraction of the paper's value.
    pub fn tolerance(self) -> f64 {
        match self {
            Self::Derived => 0.10,
            Self::Fitted => 0.05,
            Self::Identity => 0.01,
        }
    }
}

/// Origin of a model's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Stated in the paper.
    Input,
    /// Published or measured elsewhere.
    Elsewhere,
    /// Chosen here without a source.
    Assumed,
    /// Chosen to bring rows near the paper's values.
    Fitted,
}

/// Value that the paper states.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Figure, table or section, and the quantity.
    pub what: String,
    /// Value in the paper.
    pub paper: f64,
    /// Value of this project. The tests write it, and recompute it.
    pub ours: f64,
    /// Value in the file's other column.
    pub other: Option<f64>,
    /// Origin of `ours`.
    pub kind: Kind,
    /// Fitted parameters that move `ours` by more than 1% if they change by 15%; in a fitted row,
    /// the parameters that were fitted to it.
    #[serde(default)]
    pub fits: Vec<String>,
    /// Reason why `ours` is outside the tolerance, so that the row is not reproduced.
    pub off: Option<String>,
    /// Recorded result that holds `ours`, for values that take long to measure.
    pub recorded: Option<Recorded>,
}

/// Cell of a table in a document.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Path of the file from the repository's root.
    pub file: String,
    /// Beginning of the table's row.
    pub row: String,
    /// Number of the column, from 0.
    pub column: usize,
}

/// Parameter of the paper's model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Table and key in the model's file.
    pub key: String,
    /// Origin of the parameter.
    pub origin: Origin,
    /// Section of the paper, source elsewhere, or rows that the parameter was fitted to.
    pub from: String,
    /// Reason why no row notices a change by 15%.
    pub unnoticed: Option<String>,
}

/// Part of the paper's evaluation that is not reproduced.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// Name of the part.
    pub what: String,
    /// Reason.
    pub why: String,
}

/// File of claims.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Title of the paper.
    pub title: String,
    /// Authors, place, year.
    pub citation: String,
    /// Command that computes the values.
    pub command: Option<String>,
    /// Heading of the other column.
    pub other: Option<String>,
    /// Claims of the paper.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// Parameters of the model.
    #[serde(default, rename = "parameter")]
    pub parameters: Vec<Parameter>,
    /// Parts of the evaluation that are not reproduced.
    #[serde(rename = "missing")]
    pub missing: Vec<Missing>,
}

impl Paper {
    /// Reads a file.
    ///
    /// # Panics
    /// If the text is not a file of claims. The files are part of the program.
    pub fn read(text: &str) -> Self {
        match toml::from_str(text) {
            Ok(paper) => paper,
            Err(error) => panic!("papers/: {error}"),
        }
    }

    /// Returns the claim with the value of a model.
    ///
    /// # Panics
    /// If the file has no such claim.
    pub fn claim(&self, what: &str, ours: f64) -> Claim {
        let Some(claim) = self.claims.iter().find(|claim| claim.what == what) else {
            panic!("the file of {} has no claim {what:?}", self.title)
        };
        Claim { ours, ..claim.clone() }
    }
}

impl Claim {
    /// Returns the project's value divided by the paper's, minus 1.
    pub fn deviation(&self) -> f64 {
        self.ours / self.paper - 1.0
    }

    /// Returns true if the deviation is within the kind's tolerance.
    pub fn is_within(&self) -> bool {
        self.deviation().abs() <= self.kind.tolerance()
    }

    /// Formats the deviation: as a percentage, or as a ratio if it exceeds a factor of 3.
    pub fn deviation_text(&self) -> String {
        match self.ours / self.paper {
            ratio if ratio > 3.0 => format!("{ratio:.1} times"),
            ratio if ratio < 1.0 / 3.0 => format!("1/{:.1}", 1.0 / ratio),
            ratio => format!("{:+.1}%", 100.0 * (ratio - 1.0)),
        }
    }

    /// Formats the kind, with the fitted parameters.
    pub fn kind_text(&self) -> String {
        let fits = self.fits.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        match self.kind {
            Kind::Derived if fits.is_empty() => "derived".into(),
            Kind::Derived => format!("derived, through {fits}"),
            Kind::Fitted => format!("fitted: {fits}"),
            Kind::Identity => "the paper with itself".into(),
        }
    }
}

/// Formats a number with four digits.
pub fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let decimals = 3 - value.abs().log10().floor() as i32;
    format!("{value:.*}", decimals.max(0) as usize)
}
