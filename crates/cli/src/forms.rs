//! Options for the types of values and the form of keys.

use clap::Args;
use spirea_normalise::form;
use spirea_protocols::table::{FieldType, KeyForm, KeyStep};

/// Types of values and the form of keys.
#[derive(Args)]
pub struct FormOptions {
    /// Types of fields, each as NAME=TYPE: text, bytes, integer, number, decimal, boolean, date,
    /// time, datetime, instant (in UTC), duration, uuid or json. Parquet and Arrow files state
    /// their own types. Clients return values of these types.
    #[arg(help_heading = "Table", long, value_name = "NAME=TYPE", value_delimiter = ',', value_parser = parse_type)]
    types: Vec<(String, FieldType)>,
    /// Form of the keys, to which clients convert a key before they look it up: any of trim, nfc
    /// and lower, in the order in which they are applied, with commas between them; or domain, hex,
    /// e164, or e164:REGION such as e164:CH for phone numbers of one country.
    #[arg(help_heading = "Table", long, value_name = "STEPS", value_parser = parse_form)]
    normalise: Option<KeyForm>,
}

impl FormOptions {
    /// Returns the types of fields.
    pub fn types(&self) -> Vec<(String, FieldType)> {
        self.types.clone()
    }

    /// Returns the form of the keys.
    pub fn key_form(&self) -> Option<KeyForm> {
        self.normalise.clone()
    }
}

fn parse_type(text: &str) -> Result<(String, FieldType), String> {
    let (name, kind) =
        text.rsplit_once('=').ok_or("give the field's name and its type, such as price=number")?;
    Ok((name.into(), kind.parse()?))
}

fn parse_form(text: &str) -> Result<KeyForm, String> {
    let (mut steps, mut region) = (Vec::new(), None);
    for name in text.split(',') {
        let (name, of_region) = match name.split_once(':') {
            Some((name, region)) => (name, Some(region)),
            None => (name, None),
        };
        let step = KeyStep::ALL.iter().find(|(known, _)| *known == name).map(|(_, step)| *step).ok_or_else(
            || {
                let names = KeyStep::ALL.map(|(name, _)| name).join(", ");
                format!("{name:?} is no form of keys: there are {names}")
            },
        )?;
        steps.push(step);
        region = of_region.map(str::to_owned).or(region);
    }
    form(steps, region)
}

/// Formats the form of keys as `--normalise` takes it.
pub fn spelled(form: &KeyForm) -> String {
    let name =
        |step: &KeyStep| KeyStep::ALL.iter().find(|(_, known)| known == step).map_or("", |(name, _)| name);
    let steps = form.steps.iter().map(name).collect::<Vec<_>>().join(",");
    form.region.iter().fold(steps, |steps, region| format!("{steps}:{region}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_spelled_as_they_are_read() {
        for text in ["trim,nfc,lower", "lower,nfc", "domain", "hex", "e164", "e164:CH"] {
            assert_eq!(spelled(&parse_form(text).unwrap()), text);
        }
        for (text, cause) in [
            ("upper", "there are trim, nfc"),
            ("trim,hex", "where there are several"),
            ("nfc:CH", "region belongs to e164"),
            ("e164:CHE", "two capital letters"),
            ("e164:XX", "such as CH"),
            ("", "there are"),
        ] {
            let error = parse_form(text).unwrap_err();
            assert!(error.contains(cause), "{text}: {error}");
        }
        assert_eq!(parse_type("a=b=integer"), Ok(("a=b".into(), FieldType::Integer)));
        assert!(parse_type("price").is_err() && parse_type("price=float").unwrap_err().contains("number"));
    }
}
