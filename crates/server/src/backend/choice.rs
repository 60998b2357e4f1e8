use std::str::FromStr;

use spirea_backend::Strategy;

/// Which backend answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The GPUs for databases that fit there, if there are any; the processor for the others, and where a GPU fails.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// These GPUs, or an error.
    Cuda {
        /// Their numbers; none for all there are.
        devices: Vec<usize>,
        /// How they divide a database; chosen for each if there is none.
        strategy: Option<Strategy>,
    },
}

impl FromStr for BackendChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("{text:?} is none of auto, cpu, cuda, cuda:0,1 and cuda:0,1:gather");
        let mut fields = text.split(':');
        match fields.next() {
            Some("auto") if text == "auto" => Ok(Self::Auto),
            Some("cpu") if text == "cpu" => Ok(Self::Cpu),
            Some("cuda") => {
                let numbers = |list: &str| list.split(',').map(|number| number.parse().ok()).collect();
                let devices = match fields.next() {
                    None | Some("") => Some(Vec::new()),
                    Some(list) => numbers(list),
                };
                let strategy = fields.next().map(|name| name.parse::<Strategy>()).transpose()?;
                match (devices, fields.next()) {
                    (Some(devices), None) => Ok(Self::Cuda { devices, strategy }),
                    _ => Err(wanted()),
                }
            }
            _ => Err(wanted()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read() {
        let cuda = |devices: &[usize], strategy| BackendChoice::Cuda { devices: devices.to_vec(), strategy };
        for (text, choice) in [
            ("auto", BackendChoice::Auto),
            ("cpu", BackendChoice::Cpu),
            ("cuda", cuda(&[], None)),
            ("cuda:2", cuda(&[2], None)),
            ("cuda:0,3", cuda(&[0, 3], None)),
            ("cuda:0,3:gather", cuda(&[0, 3], Some(Strategy::Gather))),
            ("cuda::exchange", cuda(&[], Some(Strategy::Exchange))),
        ] {
            assert_eq!(text.parse(), Ok(choice), "{text}");
        }
        for text in ["", "gpu", "cpu:0", "auto:", "cuda:x", "cuda:0,", "cuda:0:ring", "cuda:0:gather:1"] {
            assert!(text.parse::<BackendChoice>().is_err(), "{text}");
        }
    }
}
