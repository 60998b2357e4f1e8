use std::str::FromStr;

use spirea_backend::Strategy;

/// Choice of the backend that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// GPUs, if there are any, for databases that fit on them; the processor for other databases
    /// and if a GPU fails.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// These GPUs; an error if they cannot be used.
    Cuda {
        /// Numbers of the GPUs; empty for all GPUs.
        devices: Vec<usize>,
        /// Strategy by which they divide a database; `None` chooses one for each database.
        strategy: Option<Strategy>,
    },
    /// Processing in memory for the databases that it supports, those of `dpf-xor`; the processor
    /// for other databases and if too many DPUs fail.
    Pim(PimChoice),
}

/// A machine with processing in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PimChoice {
    /// Kind of machine.
    pub machine: PimMachine,
    /// Number of DPUs; `None` for all.
    pub dpus: Option<usize>,
    /// Number of clusters, each with a full copy of every database; `None` lets the first database
    /// decide.
    pub clusters: Option<usize>,
}

/// Kind of a processing-in-memory machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PimMachine {
    /// DPUs of the vendor's library.
    Vendor,
    /// DPUs emulated on the processor.
    Emulated,
}

impl FromStr for BackendChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "{text:?} is none of auto, cpu, cuda, cuda:0,1, cuda:0,1:gather, pim, pim:2048, pim:2048:8 and pim-emulated"
            )
        };
        let mut fields = text.split(':');
        match fields.next() {
            Some("auto") if text == "auto" => Ok(Self::Auto),
            Some("cpu") if text == "cpu" => Ok(Self::Cpu),
            Some(name @ ("pim" | "pim-emulated")) => {
                let mut number = || match fields.next() {
                    None => Ok(None),
                    Some(text) => text.parse().ok().filter(|&number| number > 0).map(Some).ok_or_else(wanted),
                };
                let (dpus, clusters) = (number()?, number()?);
                let machine = if name == "pim" { PimMachine::Vendor } else { PimMachine::Emulated };
                match fields.next() {
                    None => Ok(Self::Pim(PimChoice { machine, dpus, clusters })),
                    Some(_) => Err(wanted()),
                }
            }
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
        let pim = |machine, dpus, clusters| BackendChoice::Pim(PimChoice { machine, dpus, clusters });
        for (text, choice) in [
            ("pim", pim(PimMachine::Vendor, None, None)),
            ("pim:2048", pim(PimMachine::Vendor, Some(2048), None)),
            ("pim-emulated:64:4", pim(PimMachine::Emulated, Some(64), Some(4))),
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
        for text in [
            "",
            "gpu",
            "cpu:0",
            "auto:",
            "cuda:x",
            "cuda:0,",
            "cuda:0:ring",
            "cuda:0:gather:1",
            "pim:",
            "pim:0",
            "pim:8:0",
            "pim:8:2:1",
            "pim-real",
        ] {
            assert!(text.parse::<BackendChoice>().is_err(), "{text}");
        }
    }
}
