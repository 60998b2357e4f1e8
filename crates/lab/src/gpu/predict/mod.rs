//! `spirea-lab gpu predict`: figures that a model predicts for a card from its data sheet.
//!
//! The model multiplies amounts of work by rates. The amounts are those of the protocols'
//! parameters (`Profile::work`) and the counted instructions of the kernels. The rates are
//! those of the data sheet, times shares that an H100 reached.

mod card;
mod counts;
mod figures;
mod rates;

use clap::Args;
use spirea_console::output::{Format, bytes, print_line, seconds};
use spirea_console::status::Status;

use super::results::in_thousands;
use card::{Card, CardOptions};
use figures::Figure;

/// Options of `spirea-lab gpu predict`.
#[derive(Args)]
pub struct PredictOptions {
    #[command(flatten)]
    card: CardOptions,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Prints all figures of the card.
pub fn run(options: &PredictOptions) -> anyhow::Result<Status> {
    let card = options.card.card()?;
    let figures = figures::all(&card)?;
    match Format::from_flag(options.json) {
        Format::Json => {
            print_line(&serde_json::to_string(&described(&card))?)?;
            figures.iter().try_for_each(|figure| print_line(&serde_json::to_string(figure)?))?;
        }
        Format::Text => text(&card, &figures).iter().try_for_each(|line| print_line(line))?,
    }
    Ok(Status::SUCCESS)
}

/// Returns the object that describes the card.
fn described(card: &Card) -> serde_json::Value {
    serde_json::json!({
        "name": "card",
        "prediction": true,
        "card": card.name,
        "compute": card.compute,
        "processors": card.processors,
        "clock_hz": card.clock,
        "bytes_per_second": card.bandwidth,
        "memory_bytes": card.memory,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// Returns the lines of text: the card, the figures with their parts, and the assumptions.
fn text(card: &Card, figures: &[Figure]) -> Vec<String> {
    let mut lines = vec![format!(
        "PREDICTION, not a measurement: {}, compute capability {}, {} multiprocessors at {} GHz, {}, {}",
        card.name,
        card.compute.name(),
        card.processors,
        card.clock / 1e9,
        bandwidth(card.bandwidth),
        bytes(card.memory as u64)
    )];
    let mut assumptions: Vec<&str> = Vec::new();
    for figure in figures {
        lines.push(line(figure));
        if figure.steps.len() > 1 {
            lines.extend(figure.steps.iter().map(|step| {
                format!("        - {}: {} ({})", step.name, seconds(step.seconds), step.bound.name())
            }));
        }
        lines.extend(figure.papers.iter().map(|paper| format!("        a paper's figure: {paper}")));
        for assumption in &figure.assumptions {
            if !assumptions.contains(&assumption.as_str()) {
                assumptions.push(assumption);
            }
        }
    }
    lines.extend(assumptions.iter().map(|assumption| format!("assumed {assumption}")));
    lines
}

/// Formats a bandwidth in the unit of data sheets.
fn bandwidth(rate: f64) -> String {
    if rate >= 1e12 { format!("{:.2} TB/s", rate / 1e12) } else { format!("{:.0} GB/s", rate / 1e9) }
}

/// Returns the line of a figure.
fn line(figure: &Figure) -> String {
    let Figure { name, shape: [rows, columns], batch, .. } = figure;
    let params = figure.params.as_deref().map_or(String::new(), |params| format!(" ({params})"));
    format!(
        "predict {name}{params} {rows} x {columns}, batch {batch}: {} or {}/s, bound by {}",
        seconds(figure.seconds),
        in_thousands(figure.per_second),
        figure.bound.name()
    )
}

#[cfg(test)]
mod tests;
