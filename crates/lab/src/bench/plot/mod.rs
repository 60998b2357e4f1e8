//! `spirea-lab bench plot`: figures of results, as SVG.

mod measured;
mod ratios;
mod steps;

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::Args;
use spirea_console::output::print_line;

use self::measured::{grouped_figures, read, unique};

/// Options of `spirea-lab bench plot`.
#[derive(Args)]
pub struct PlotOptions {
    /// Files of results, one JSON object a line, as the benchmarks print them with --json.
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// Folder for the figures: ratios.svg and steps.svg.
    #[arg(long, default_value = ".", value_name = "DIR")]
    out: PathBuf,
}

/// Reads results and draws them.
pub fn run(options: &PlotOptions) -> anyhow::Result<()> {
    let mut figures = Vec::new();
    for path in &options.results {
        figures.extend(read(path)?);
    }
    ensure!(!figures.is_empty(), "there is no measured figure in these results");
    let backends: Vec<&str> = unique(figures.iter().map(|figure| figure.backend.as_str()));
    let title = backends.join(", ");
    let groups = grouped_figures(&figures);
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("{}: cannot be made", options.out.display()))?;
    let path = options.out.join("ratios.svg");
    if ratios::draw(&path, &title, &groups)? {
        print_line(&format!("wrote {}", path.display()))?;
    }
    let path = options.out.join("steps.svg");
    if steps::draw(&path, &title, &groups)? {
        print_line(&format!("wrote {}", path.display()))?;
    }
    Ok(())
}
