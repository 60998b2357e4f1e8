//! Comparison of a model with its paper's file: values, kinds, and the effect of every parameter.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use toml::{Table, Value};

use crate::{Claim, Kind, Origin, Paper, Parameter, digits};

/// Relative change of a parameter.
const CHANGE: f64 = 0.15;
/// Minimum relative change of a row for which a fitted parameter counts as moving the row.
const MOVED: f64 = 0.01;

/// A model that computes a paper's claims from a file of parameters.
pub struct Model<'a> {
    /// Paper with the claims.
    pub paper: &'a Paper,
    /// Text of the model's file.
    pub parameters: &'a str,
    /// Computes the claims in parts, the cheapest part first. A refused file is an error; claims
    /// that the parameters do not allow are left out.
    pub compute: &'a (dyn Fn(&str) -> Result<Vec<Part>, String> + Sync),
    /// Returns true for the key of a parameter whose effect is to be tested. Fitted parameters are
    /// always tested, because rows name those that move them.
    pub is_tested: &'a (dyn Fn(&str) -> bool + Sync),
}

/// Part of a model's claims, computed on demand.
pub type Part = Box<dyn Fn() -> Vec<Claim>>;

impl Model<'_> {
    fn claims(&self, parameters: &str) -> Result<Vec<Claim>, String> {
        Ok((self.compute)(parameters)?.iter().flat_map(|part| part()).collect())
    }

    /// Checks that the file lists every parameter, that each row agrees with its kind, and that
    /// each tested parameter has the effect that the file states. Returns the problems.
    ///
    /// # Panics
    /// If the model refuses its own file.
    pub fn problems(&self) -> Vec<String> {
        let claims = self.claims(self.parameters).expect("the model reads its own file");
        let mut problems = kinds(&claims);
        let expected: BTreeSet<_> = self.paper.claims.iter().map(|claim| &claim.what).collect();
        let computed: BTreeSet<_> = claims.iter().map(|claim| &claim.what).collect();
        for what in expected.symmetric_difference(&computed) {
            problems.push(format!("{what}: a claim of the file or of the model alone"));
        }
        let table: Table = self.parameters.parse().expect("the model's file is TOML");
        let keys: BTreeSet<String> = keys(&table).into_iter().collect();
        let listed: BTreeSet<String> = self.paper.parameters.iter().map(|it| it.key.clone()).collect();
        for key in keys.symmetric_difference(&listed) {
            problems.push(format!("{key}: a parameter of the model or of the paper's file alone"));
        }
        let is_tested = |it: &&Parameter| it.origin == Origin::Fitted || (self.is_tested)(&it.key);
        let tested: Vec<&Parameter> = self.paper.parameters.iter().filter(is_tested).collect();
        let effects: Vec<Effect> = tested.par_iter().map(|it| self.effect(it, &table, &claims)).collect();
        let mut moved: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for (parameter, effect) in tested.into_iter().zip(effects) {
            match (effect, &parameter.unnoticed) {
                (Effect::Moves(rows), _) => {
                    rows.into_iter().for_each(|row| moved.entry(row).or_default().extend([&*parameter.key]));
                }
                (Effect::Unnoticed, None) => {
                    problems.push(format!("{}: no row notices a change by 15%", parameter.key));
                }
                (Effect::Noticed, Some(_)) => problems.push(format!("{}: a row notices it", parameter.key)),
                _ => {}
            }
        }
        let fitted = self.paper.parameters.iter().filter(|parameter| parameter.origin == Origin::Fitted);
        for Parameter { key, .. } in fitted {
            if !claims.iter().any(|claim| claim.kind == Kind::Fitted && claim.fits.contains(key)) {
                problems.push(format!("{key}: fitted, and no row says so"));
            }
        }
        for claim in &claims {
            let moved = moved.remove(claim.what.as_str()).unwrap_or_default();
            let stated: BTreeSet<&str> = claim.fits.iter().map(String::as_str).collect();
            let is_right = match claim.kind {
                Kind::Fitted => !stated.is_empty() && stated.is_subset(&moved),
                Kind::Derived | Kind::Identity => stated == moved,
            };
            if !is_right {
                problems.push(format!("{}: fits {stated:?}, and is moved by {moved:?}", claim.what));
            }
        }
        problems
    }

    /// Determines the effect of a parameter's change.
    fn effect(&self, parameter: &Parameter, table: &Table, before: &[Claim]) -> Effect {
        let changed = changed(table, &parameter.key, |text| (self.compute)(text).ok());
        if parameter.origin != Origin::Fitted {
            let noticed = changed.iter().any(|parts| notices(parts, before));
            return if noticed { Effect::Noticed } else { Effect::Unnoticed };
        }
        let is_moved = |claim: &Claim| {
            let before = before.iter().find(|before| before.what == claim.what);
            before.is_some_and(|before| (claim.ours / before.ours - 1.0).abs() > MOVED)
        };
        let rows = changed.iter().flatten().flat_map(|part| part()).filter(is_moved);
        Effect::Moves(rows.map(|claim| claim.what).collect())
    }
}

/// Effect of a parameter's change.
enum Effect {
    /// A row leaves its tolerance.
    Noticed,
    /// No row leaves its tolerance.
    Unnoticed,
    /// The fitted parameter moves these rows.
    Moves(Vec<String>),
}

/// Returns the problems of rows that disagree with their kind.
pub fn kinds(claims: &[Claim]) -> Vec<String> {
    let wrong = claims.iter().filter_map(|claim| match (claim.is_within(), &claim.off) {
        (true, Some(_)) => Some(format!("{}: within its tolerance, though `off`", claim.what)),
        (false, None) => Some(format!("{}: {} off", claim.what, claim.deviation_text())),
        _ => None,
    });
    wrong.collect()
}

/// Returns true if a row leaves its tolerance or disappears. Rows that were outside their tolerance
/// before do not count, nor do comparisons of the paper with itself.
fn notices(parts: &[Part], before: &[Claim]) -> bool {
    let watching: Vec<&Claim> =
        before.iter().filter(|claim| claim.kind != Kind::Identity && claim.is_within()).collect();
    let mut found = 0;
    for part in parts {
        for claim in part() {
            if watching.iter().any(|before| before.what == claim.what) {
                found += 1;
                if !claim.is_within() {
                    return true;
                }
            }
        }
    }
    found < watching.len()
}

/// Returns the keys of a file's values, with their tables.
fn keys(table: &Table) -> Vec<String> {
    let of_table = |(key, value): (&String, &Value)| match value {
        Value::Table(below) => keys(below).into_iter().map(|below| format!("{key}.{below}")).collect(),
        Value::String(_) => Vec::new(),
        _ => vec![key.clone()],
    };
    table.iter().flat_map(of_table).collect()
}

/// Returns the results of `read` for a file with the parameter 15% smaller, and 15% larger. If
/// `read` refuses both, uses half and twice the value.
fn changed<T>(table: &Table, key: &str, read: impl Fn(&str) -> Option<T>) -> Vec<T> {
    let with = |factor: f64| {
        let mut table = table.clone();
        scale(&mut table, key, factor);
        read(&table.to_string())
    };
    let near: Vec<T> = [1.0 - CHANGE, 1.0 + CHANGE].into_iter().filter_map(with).collect();
    if near.is_empty() { [0.5, 2.0].into_iter().filter_map(with).collect() } else { near }
}

fn scale(table: &mut Table, key: &str, factor: f64) {
    match (key.split_once('.'), table.get_mut(key.split('.').next().unwrap_or_default())) {
        (Some((_, below)), Some(Value::Table(table))) => scale(table, below, factor),
        (_, Some(value)) => scale_value(value, factor),
        (_, None) => {}
    }
}

/// Scales a number. In a list of points, scales the last coordinate; a whole number changes by at
/// least 1.
fn scale_value(value: &mut Value, factor: f64) {
    match value {
        Value::Float(number) => *number *= factor,
        Value::Integer(number) => {
            let least = if factor > 1.0 { *number + 1 } else { *number - 1 };
            let scaled = (*number as f64 * factor).round() as i64;
            *number = if factor > 1.0 { scaled.max(least) } else { scaled.min(least) };
        }
        Value::Array(items) if items.iter().all(Value::is_array) => {
            items.iter_mut().for_each(|item| scale_value(item, factor));
        }
        Value::Array(items) => items.iter_mut().skip(1).for_each(|item| scale_value(item, factor)),
        _ => {}
    }
}

/// Returns a paper's file with `ours` and the other column replaced by the values of `claims`.
pub fn with_values(text: &str, claims: &[Claim]) -> String {
    let mut current: Option<&Claim> = None;
    let lines = text.lines().map(|line| match line.split_once(" = ") {
        Some(("what", value)) => {
            current = claims.iter().find(|claim| format!("{:?}", claim.what) == value);
            line.to_owned()
        }
        Some((key @ ("ours" | "other"), _)) if current.is_some() => {
            let value = current.and_then(|claim| if key == "ours" { Some(claim.ours) } else { claim.other });
            value.map_or_else(|| line.to_owned(), |value| format!("{key} = {}", digits(value)))
        }
        _ => line.to_owned(),
    });
    lines.map(|line| line + "\n").collect()
}
