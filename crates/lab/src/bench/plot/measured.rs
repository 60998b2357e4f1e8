//! Measured figures, read from results and grouped by the measured configuration.

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

/// A measured figure, with the data that the drawings need.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Figure {
    pub name: String,
    pub params: Option<String>,
    pub shape: [u64; 2],
    #[serde(default)]
    pub backend: String,
    #[serde(default = "one")]
    pub threads: u64,
    pub batch: u64,
    pub seconds: f64,
    pub floor: Option<String>,
    pub ratio: Option<f64>,
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// A step of a figure.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Step {
    pub name: String,
    pub seconds: f64,
}

fn one() -> u64 {
    1
}

impl Figure {
    /// Formats the measured configuration in one line.
    pub fn label(&self) -> String {
        let Self { name, params, shape: [rows, columns], threads, batch, .. } = self;
        let mut label = name.clone();
        if let Some(params) = params {
            label += &format!(" · {}", params.split(", keys").next().unwrap_or_default());
        }
        label += &format!(" · {} x {}", grouped(*rows), grouped(*columns));
        if *batch > 1 {
            label += &format!(" · batch {}", grouped(*batch));
        }
        if *threads > 1 && !self.backend.starts_with("cuda") {
            label += &format!(" · {threads} threads");
        }
        label
    }

    /// True if both figures measure the same configuration; floors and times may differ.
    fn is_same(&self, other: &Self) -> bool {
        let key = |figure: &Self| {
            (figure.label(), figure.params.clone(), figure.backend.clone(), figure.ratio.is_some())
        };
        key(self) == key(other)
    }
}

/// Formats a number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// All measurements of one configuration, the median first.
pub(super) type Group = Vec<Figure>;

/// Reads the figures of a file. Skips other lines, such as those of floors and of skipped
/// measurements.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Figure>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let mut figures = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value: serde_json::Value = serde_json::from_str(line)
            .with_context(|| format!("{}: line {} is no JSON object", path.display(), i + 1))?;
        if value.get("seconds").is_some() && value.get("shape").is_some() {
            let figure = serde_json::from_value(value)
                .with_context(|| format!("{}: line {} is no figure", path.display(), i + 1))?;
            figures.push(figure);
        }
    }
    Ok(figures)
}

/// Returns the items without repetitions and without empty ones.
pub(super) fn unique<'a>(items: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    items.for_each(|item| {
        if !item.is_empty() && !found.contains(&item) {
            found.push(item);
        }
    });
    found
}

/// Groups the measurements by configuration. Groups of the same name are adjacent, in the order of
/// first appearance.
pub(super) fn grouped_figures(figures: &[Figure]) -> Vec<Group> {
    let names = unique(figures.iter().map(|figure| figure.name.as_str()));
    let mut groups: Vec<Group> = Vec::new();
    for figure in names.iter().flat_map(|name| figures.iter().filter(move |figure| figure.name == *name)) {
        match groups.iter_mut().find(|group| group[0].is_same(figure)) {
            Some(group) => group.push(figure.clone()),
            None => groups.push(vec![figure.clone()]),
        }
    }
    for group in &mut groups {
        group.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let median = group.len() / 2;
        group.swap(0, median);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_groups() {
        let texts = [0, 12, 999, 1000, 33_554_432].map(grouped);
        assert_eq!(texts, ["0", "12", "999", "1,000", "33,554,432"]);
    }
}
