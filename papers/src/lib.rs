//! The claims of papers beside this project's values: one file per paper, the rules of `papers/README.md`, the tables in the
//! documents.
//!
//! [`Paper`] reads a file, [`check`] holds a model to it, [`documents`] writes the tables.

pub mod check;
pub mod documents;

use serde::{Deserialize, Serialize};

/// The file of IM-PIR.
pub const IM_PIR: &str = include_str!("../im-pir.toml");
/// The file of IVE.
pub const IVE: &str = include_str!("../ive.toml");
/// The file of GPU-DPF.
pub const GPU_DPF: &str = include_str!("../gpu-dpf.toml");
/// The file of VIPIR.
pub const VIPIR: &str = include_str!("../vipir.toml");
/// The file of GPIR.
pub const GPIR: &str = include_str!("../gpir.toml");

/// The files by name, in the order of the tables.
pub const ALL: [(&str, &str); 5] =
    [("im-pir", IM_PIR), ("ive", IVE), ("gpu-dpf", GPU_DPF), ("vipir", VIPIR), ("gpir", GPIR)];

/// The origin of a claim's value of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Computed from parameters that were not fitted to this row.
    Derived,
    /// A parameter was chosen so that this row comes near.
    Fitted,
    /// The paper compared with itself. Never evidence.
    Identity,
}

impl Kind {
    /// Largest deviation, as a share of the paper's value.
    pub fn tolerance(self) -> f64 {
        match self {
            Self::Derived => 0.10,
            Self::Fitted => 0.05,
            Self::Identity => 0.01,
        }
    }
}

/// The origin of a model's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper states it.
    Input,
    /// Published or measured elsewhere.
    Elsewhere,
    /// Chosen here without a source.
    Assumed,
    /// Chosen so that rows of the paper come near.
    Fitted,
}

/// A value that the paper states.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Figure, table or section, and the quantity.
    pub what: String,
    /// The paper's value.
    pub paper: f64,
    /// This project's value. The tests write it, and compute it anew.
    pub ours: f64,
    /// The value in the file's other column.
    pub other: Option<f64>,
    /// The origin of `ours`.
    pub kind: Kind,
    /// Fitted parameters that move `ours` by more than 1% where they change by 15%; for a fitted row those that were fitted
    /// to it.
    #[serde(default)]
    pub fits: Vec<String>,
    /// The reason why `ours` is outside of the tolerance: the row is not reproduced.
    pub off: Option<String>,
    /// The recorded result that holds `ours`, for values that take long to measure.
    pub recorded: Option<Recorded>,
}

/// A cell of a table in a document.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The file, from the repository's root.
    pub file: String,
    /// The beginning of the table's row.
    pub row: String,
    /// The column, from 0.
    pub column: usize,
}

/// A parameter of the paper's model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Table and key in the model's file.
    pub key: String,
    /// Its origin.
    pub origin: Origin,
    /// The paper's section, the source elsewhere, or the rows that it was fitted to.
    pub from: String,
    /// The reason why no row notices a change by 15%.
    pub unnoticed: Option<String>,
}

/// A part of the paper's evaluation that is not reproduced.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// The part.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// A file of claims.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its name.
    pub title: String,
    /// Authors, place, year.
    pub citation: String,
    /// The command that computes the values.
    pub command: Option<String>,
    /// The head of the other column.
    pub other: Option<String>,
    /// The claims.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// The model's parameters.
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
    /// If the file is none of claims. The files are part of the program.
    pub fn read(text: &str) -> Self {
        match toml::from_str(text) {
            Ok(paper) => paper,
            Err(error) => panic!("papers/: {error}"),
        }
    }

    /// The claim with the value of a model.
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
    /// Our value over the paper's, less 1.
    pub fn deviation(&self) -> f64 {
        self.ours / self.paper - 1.0
    }

    /// True if the deviation is within the kind's tolerance.
    pub fn is_within(&self) -> bool {
        self.deviation().abs() <= self.kind.tolerance()
    }

    /// The deviation in words: percent, or times where it is above a factor of 3.
    pub fn deviation_text(&self) -> String {
        match self.ours / self.paper {
            ratio if ratio > 3.0 => format!("{ratio:.1} times"),
            ratio if ratio < 1.0 / 3.0 => format!("1/{:.1}", 1.0 / ratio),
            ratio => format!("{:+.1}%", 100.0 * (ratio - 1.0)),
        }
    }

    /// The kind in words, with the parameters that were fitted.
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

/// Four digits of a number.
pub fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let decimals = 3 - value.abs().log10().floor() as i32;
    format!("{value:.*}", decimals.max(0) as usize)
}
