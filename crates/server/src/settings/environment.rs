//! Settings from the environment: `SPIREA_` and the key in capitals, with two underscores for each
//! dot.

use serde::Deserialize as _;
use toml::{Table, Value};

use super::document::{explain, nearest};
use super::{SettingError, Settings, known_keys};

/// Prefix of the variables' names.
const PREFIX: &str = "SPIREA_";

/// Returns the variable that overrides a key.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_ascii_uppercase())
}

/// A variable as a setting.
pub(super) struct Variable {
    pub name: String,
    pub key: String,
    pub settings: Settings,
}

/// Returns the settings among the variables, ordered by name, and warnings about variables that
/// look like settings but are not. These are no errors: a cluster's scheduler sets variables such
/// as SPIREA_SERVICE_HOST for a service called spirea.
pub(super) fn read(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<(Vec<Variable>, Vec<String>), SettingError> {
    let keys = known_keys();
    let mut found: Vec<_> = variables
        .into_iter()
        .filter_map(|(name, value)| {
            let key = name.strip_prefix(PREFIX)?.to_ascii_lowercase().replace("__", ".");
            Some((name, key, value))
        })
        .collect();
    found.sort();
    let (mut settings, mut warnings) = (Vec::new(), Vec::new());
    for (name, key, value) in found {
        if keys.contains(&key) {
            let read = setting(&key, &value).map_err(|cause| SettingError { place: name.clone(), cause })?;
            settings.push(Variable { name, key, settings: read });
        } else if let Some(near) = nearest(&key, keys.iter().map(String::as_str)) {
            warnings
                .push(format!("{name} is no setting and has no effect; did you mean {}?", variable(near)));
        }
    }
    Ok((settings, warnings))
}

/// Parses a value as TOML if possible, otherwise as text: `4096`, `true`, `[{ path = "urls" }]`,
/// `127.0.0.1:80`.
fn setting(key: &str, value: &str) -> Result<Settings, String> {
    let nested = |value: Value| {
        let nest = |value, part: &str| Value::Table(Table::from_iter([(part.to_owned(), value)]));
        Settings::deserialize(key.rsplit('.').fold(value, nest)).map_err(|error| explain(error.message()))
    };
    let parsed = toml::de::ValueDeserializer::parse(value).and_then(Value::deserialize).ok();
    match parsed.map(nested) {
        Some(Ok(settings)) => Ok(settings),
        // A number may be meant as text. If the setting does not accept text either, the error
        // about the number is the better message.
        Some(Err(cause)) => nested(Value::String(value.into())).map_err(|_| cause),
        None => nested(Value::String(value.into())),
    }
}
