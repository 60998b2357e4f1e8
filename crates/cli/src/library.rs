//! Options in the command's form, for programs that embed the command.

use std::sync::Arc;

use clap::Args;
use spirea_console::threads::Threads;
use spirea_protocols::planner::Rates;
use spirea_server::ServerConfig;
use spirea_store::ingest::RowTable;
use spirea_store::{BuildOptions, Input};

use crate::{build, plan, serve};

/// Returns the options and the number of threads with which `spirea build` would build for these
/// arguments. If `rows` are given, they replace the file of `--input`. Measures this machine if the
/// planner has to choose.
///
/// # Errors
/// A [`clap::Error`], a [`StoreError`](spirea_store::StoreError), or another error in the
/// arguments.
pub fn build_options(
    arguments: &[String],
    rows: Option<Arc<dyn RowTable>>,
) -> anyhow::Result<(BuildOptions, Threads)> {
    let options: build::Options = parse("build", arguments)?;
    let input = rows.map(Input::Rows).map_or_else(|| options.files(), Ok)?;
    Ok((options.build_options(input, options.decide(|_| ())?.protocol)?, options.threads()))
}

/// Returns the configuration with which `spirea serve` would serve for these arguments. Settings
/// that the arguments omit come from the environment.
///
/// # Errors
/// A [`clap::Error`], or an error in the settings.
pub fn server_config(arguments: &[String]) -> anyhow::Result<ServerConfig> {
    let configured = parse::<serve::Options>("serve", arguments)?.configure()?;
    configured.check()?;
    Ok(configured.config)
}

/// Returns the lines of `spirea plan --json` for these arguments, at rates that have been measured.
///
/// # Errors
/// A [`clap::Error`], a [`StoreError`](spirea_store::StoreError), or another error in the
/// arguments.
pub fn plan_lines(arguments: &[String], rates: &Rates) -> anyhow::Result<Vec<String>> {
    parse::<plan::Options>("plan", arguments)?.lines(rates)
}

fn parse<T: Args>(name: &'static str, arguments: &[String]) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new(name));
    let matches = command.try_get_matches_from([name.to_owned()].iter().chain(arguments))?;
    T::from_arg_matches(&matches)
}

#[cfg(test)]
mod tests {
    use spirea_store::Input;

    use super::*;

    fn arguments(arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn options_are_those_of_the_command() {
        let given =
            arguments(&["--input=a.csv", "--out=table", "--key=k", "--value=a", "--value=b", "--threads=1"]);
        let (options, threads) = build_options(&given, None).unwrap();
        assert!(matches!(&options.input, Input::Files(files) if files.name().ends_with("a.csv")));
        assert_eq!((options.selection.values.join(" "), threads.count()), ("a b".into(), 1));

        for (wrong, cause) in [
            (arguments(&["--input=a.csv", "--out=t", "--bins=x"]), "--bins"),
            (
                arguments(&["--input=a.csv", "--out=t", "--protocol=dpf-xor", "--prf=siphash"]),
                "--accept-weak-prf",
            ),
            (arguments(&["--input=a.unknown", "--out=t"]), "--format"),
        ] {
            let error = build_options(&wrong, None).unwrap_err().to_string();
            assert!(error.contains(cause), "{error}");
        }
        assert!(server_config(&arguments(&["--party=2", "t"])).unwrap_err().is::<clap::Error>());
        let config = server_config(&arguments(&["--listen=127.0.0.1:0", "no/such/snapshot"]));
        assert!(config.unwrap_err().to_string().contains("no/such/snapshot"));
    }

    #[test]
    fn a_plan_has_a_line_for_each_protocol() {
        let given = arguments(&["--records=1000", "--record-bytes=32", "--servers=2", "--bins=10"]);
        let lines = plan_lines(&given, &Rates::default()).unwrap();
        // Three protocols have two lines: with registered keys, and with keys in each query.
        assert_eq!(lines.len(), spirea_protocols::registry::NAMES.len() + 3);
        assert!(lines.iter().all(|line| line.starts_with("{\"protocol\":")), "{lines:?}");
        let given = arguments(&["--records=1000", "--record-bytes=32", "--for=apple"]);
        let lines = plan_lines(&given, &Rates::default()).unwrap();
        let apple: serde_json::Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        // The query is one ciphertext: c_0 and the seed of c_1.
        assert_eq!((&apple["protocol"], &apple["upload_bytes"]), (&"apple".into(), &28_192.into()));
        assert!(plan_lines(&arguments(&["--records=0", "--record-bytes=32"]), &Rates::default()).is_err());
    }
}
