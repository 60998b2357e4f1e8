//! Settings: a TOML file, overridden by the environment, overridden by the caller.

mod document;
mod environment;
mod units;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use spirea_backend::Residence;
use spirea_protocols::Party;
use spirea_protocols::signature::PublicKey;

pub(crate) use self::document::Document;
pub use self::document::SettingError;
use self::units::{address, named, parsed, size, time};
pub use self::units::{parse_address, parse_count, parse_size, parse_time};
use crate::{BackendChoice, Collector, Follow, LogFormat, Quota, ServerConfig, TlsFiles, WrongSetting};

/// Settings of one source, a file or the environment; absent settings leave the configuration
/// unchanged.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    #[serde(deserialize_with = "address")]
    listen: Option<SocketAddr>,
    #[serde(deserialize_with = "address")]
    admin_listen: Option<SocketAddr>,
    admin_names: Option<Vec<String>>,
    #[serde(deserialize_with = "parsed")]
    backend: Option<BackendChoice>,
    threads: Option<usize>,
    #[serde(deserialize_with = "residence")]
    memory: Option<Residence>,
    #[serde(deserialize_with = "parsed")]
    party: Option<Party>,
    queue: Option<usize>,
    development: Option<bool>,
    databases: Option<Vec<DatabaseSettings>>,
    watch: Option<bool>,
    signing_key: Option<PathBuf>,
    #[serde(deserialize_with = "time")]
    activate_after: Option<Duration>,
    follow: FollowSettings,
    keys: KeySettings,
    apple: AppleSettings,
    limits: LimitSettings,
    tls: TlsSettings,
    tokens: TokenSettings,
    log: LogSettings,
    telemetry: TelemetrySettings,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatabaseSettings {
    path: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FollowSettings {
    url: Option<String>,
    token_file: Option<PathBuf>,
    ca: Option<PathBuf>,
    #[serde(deserialize_with = "parsed")]
    pin_key: Option<PublicKey>,
    #[serde(deserialize_with = "time")]
    interval: Option<Duration>,
    #[serde(deserialize_with = "size")]
    disk: Option<u64>,
}

impl FollowSettings {
    fn apply(self, follow: &mut Follow) {
        let Self { url, token_file, ca, pin_key, interval, disk } = self;
        set(&mut follow.url, url);
        set(&mut follow.token_file, token_file.map(Some));
        set(&mut follow.ca, ca.map(Some));
        set(&mut follow.key, pin_key.map(Some));
        set(&mut follow.interval, interval);
        set(&mut follow.disk, disk.map(Some));
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct KeySettings {
    folder: Option<PathBuf>,
    #[serde(deserialize_with = "size")]
    memory: Option<u64>,
    #[serde(deserialize_with = "size")]
    disk: Option<u64>,
    disk_sets: Option<usize>,
    #[serde(deserialize_with = "size")]
    client_memory: Option<u64>,
    #[serde(deserialize_with = "size")]
    client_disk: Option<u64>,
    client_sets: Option<usize>,
    #[serde(deserialize_with = "time")]
    expiry: Option<Duration>,
    redis: Option<String>,
    #[serde(deserialize_with = "time")]
    redis_timeout: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AppleSettings {
    tokens: Option<PathBuf>,
    gateway: Option<PathBuf>,
    #[serde(deserialize_with = "parsed")]
    quota: Option<Quota>,
    #[serde(deserialize_with = "size")]
    keys_memory: Option<u64>,
    client_keys: Option<usize>,
    #[serde(deserialize_with = "time")]
    key_life: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitSettings {
    #[serde(deserialize_with = "size")]
    request_bytes: Option<u64>,
    #[serde(deserialize_with = "size")]
    body_memory: Option<u64>,
    #[serde(deserialize_with = "size")]
    connection_memory: Option<u64>,
    connections: Option<usize>,
    requests: Option<usize>,
    #[serde(deserialize_with = "size")]
    client_body_memory: Option<u64>,
    #[serde(deserialize_with = "size")]
    client_connection_memory: Option<u64>,
    client_connections: Option<usize>,
    client_requests: Option<usize>,
    #[serde(deserialize_with = "time")]
    read_timeout: Option<Duration>,
    #[serde(deserialize_with = "size")]
    read_rate: Option<u64>,
    #[serde(deserialize_with = "time")]
    idle_timeout: Option<Duration>,
    #[serde(deserialize_with = "time")]
    write_timeout: Option<Duration>,
    #[serde(deserialize_with = "size")]
    write_rate: Option<u64>,
    #[serde(deserialize_with = "time")]
    drain_delay: Option<Duration>,
    #[serde(deserialize_with = "time")]
    drain_timeout: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TlsSettings {
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TokenSettings {
    file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LogSettings {
    #[serde(deserialize_with = "log_format")]
    format: Option<LogFormat>,
    #[serde(deserialize_with = "parsed")]
    level: Option<tracing::Level>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TelemetrySettings {
    #[serde(deserialize_with = "parsed")]
    otlp: Option<Collector>,
}

fn residence<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Residence>, D::Error> {
    named(deserializer, [("copied", Residence::Copied), ("mapped", Residence::Mapped)])
}

fn log_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LogFormat>, D::Error> {
    named(deserializer, [("text", LogFormat::Text), ("json", LogFormat::Json)])
}

fn set<T>(value: &mut T, setting: Option<T>) {
    if let Some(setting) = setting {
        *value = setting;
    }
}

impl Settings {
    /// Resolves the paths of a settings file relative to the file's folder.
    fn relative_to(mut self, folder: &Path) -> Self {
        let Self { databases, signing_key, follow, keys, apple, tls, tokens, .. } = &mut self;
        let others = [&mut follow.token_file, &mut follow.ca, &mut apple.tokens, &mut apple.gateway];
        let files = [signing_key, &mut keys.folder, &mut tls.certificate, &mut tls.key, &mut tokens.file];
        let databases = databases.iter_mut().flatten().map(|database| &mut database.path);
        for path in files.into_iter().chain(others).flatten().chain(databases) {
            *path = folder.join(&path);
        }
        self
    }

    /// Overrides the settings of `configured` by these. Only an address makes a server follow
    /// another one: the other settings of that section may be defaults for several servers.
    fn apply(self, configured: &mut Configured) {
        let Configured { config, follow: known, .. } = configured;
        let Self {
            listen,
            admin_listen,
            admin_names,
            backend,
            threads,
            memory,
            party,
            queue,
            development,
            databases,
            watch,
            signing_key,
            activate_after,
            follow,
            keys,
            apple,
            limits,
            tls,
            tokens,
            log,
            telemetry,
        } = self;
        set(&mut config.listen, listen);
        set(&mut config.admin_listen, admin_listen.map(Some));
        set(&mut config.admin_names, admin_names);
        set(&mut config.backend, backend);
        set(&mut config.threads, threads);
        set(&mut config.residence, memory);
        set(&mut config.party, party.map(Some));
        set(&mut config.queue, queue);
        set(&mut config.development, development);
        set(
            &mut config.snapshots,
            databases.map(|databases| databases.into_iter().map(|database| database.path).collect()),
        );
        set(&mut config.watch, watch);
        set(&mut config.signing_key, signing_key.map(Some));
        set(&mut config.activate_after, activate_after.map(Some));
        let follows = follow.url.is_some();
        follow.apply(known);
        if follows || config.follow.is_some() {
            config.follow = Some(known.clone());
        }
        set(&mut config.keys.folder, keys.folder.map(Some));
        set(&mut config.keys.memory_bytes, keys.memory);
        set(&mut config.keys.disk.bytes, keys.disk);
        set(&mut config.keys.disk.sets, keys.disk_sets);
        set(&mut config.keys.client.memory_bytes, keys.client_memory.map(Some));
        set(&mut config.keys.client.disk_bytes, keys.client_disk.map(Some));
        set(&mut config.keys.client.sets, keys.client_sets.map(Some));
        set(&mut config.keys.expiry, keys.expiry);
        set(&mut config.redis, keys.redis.map(|url| Some(url.into())));
        set(&mut config.redis_timeout, keys.redis_timeout);
        set(&mut config.apple.tokens, apple.tokens.map(Some));
        set(&mut config.apple.gateway, apple.gateway.map(Some));
        set(&mut config.apple.quota, apple.quota.map(Some));
        set(&mut config.apple.keys_memory, apple.keys_memory);
        set(&mut config.apple.client_keys, apple.client_keys);
        set(&mut config.apple.key_life, apple.key_life);
        set(&mut config.limits.request_bytes, limits.request_bytes);
        set(&mut config.limits.body_memory, limits.body_memory);
        set(&mut config.limits.connection_memory, limits.connection_memory);
        set(&mut config.limits.connections, limits.connections);
        set(&mut config.limits.requests, limits.requests);
        set(&mut config.limits.client_body_memory, limits.client_body_memory);
        set(&mut config.limits.client_connection_memory, limits.client_connection_memory);
        set(&mut config.limits.client_connections, limits.client_connections);
        set(&mut config.limits.client_requests, limits.client_requests);
        set(&mut config.limits.read_timeout, limits.read_timeout);
        set(&mut config.limits.read_rate, limits.read_rate);
        set(&mut config.limits.idle_timeout, limits.idle_timeout);
        set(&mut config.limits.write_timeout, limits.write_timeout);
        set(&mut config.limits.write_rate, limits.write_rate);
        set(&mut config.limits.drain_delay, limits.drain_delay);
        set(&mut config.limits.drain_timeout, limits.drain_timeout);
        if tls.certificate.is_some() || tls.key.is_some() {
            let files = config.tls.get_or_insert_with(TlsFiles::default);
            set(&mut files.certificate, tls.certificate);
            set(&mut files.key, tls.key);
        }
        set(&mut config.tokens, tokens.file.map(Some));
        set(&mut config.log.format, log.format);
        set(&mut config.log.level, log.level);
        set(&mut config.traces, telemetry.otlp.map(Some));
    }
}

/// Returns all known keys, with dots between their parts.
fn known_keys() -> Vec<String> {
    let sections = [
        ("", keys_of::<Settings>()),
        ("follow.", keys_of::<FollowSettings>()),
        ("keys.", keys_of::<KeySettings>()),
        ("apple.", keys_of::<AppleSettings>()),
        ("limits.", keys_of::<LimitSettings>()),
        ("tls.", keys_of::<TlsSettings>()),
        ("tokens.", keys_of::<TokenSettings>()),
        ("log.", keys_of::<LogSettings>()),
        ("telemetry.", keys_of::<TelemetrySettings>()),
    ];
    let names: Vec<&str> = sections.iter().map(|(section, _)| section.trim_end_matches('.')).collect();
    let keys =
        sections.iter().flat_map(|(section, keys)| keys.iter().map(move |key| format!("{section}{key}")));
    keys.filter(|key| !names.contains(&key.as_str())).collect()
}

/// Returns the keys of a section, which the deserializer lists when it meets an unknown one.
fn keys_of<T: for<'de> Deserialize<'de> + std::fmt::Debug>() -> Vec<String> {
    let stranger = toml::Table::from_iter([(String::new(), toml::Value::Boolean(true))]);
    let refusal = T::deserialize(stranger).map(drop).expect_err("no section has a key without a name");
    let known = document::unknown_field(refusal.message()).map(|(_, known)| known).unwrap_or_default();
    known.into_iter().map(str::to_owned).collect()
}

/// A configuration, and the origin of each of its settings.
#[derive(Debug)]
pub struct Configured {
    /// The configuration.
    pub config: ServerConfig,
    /// Warnings about environment variables that look like settings but are not.
    unknown: Vec<String>,
    /// Settings of the section `follow`. They are part of the configuration only if the section
    /// names an address.
    follow: Follow,
    origins: BTreeMap<String, String>,
}

impl Configured {
    /// Reads a configuration: the defaults, overridden by a file, if given, and by environment
    /// variables.
    ///
    /// # Errors
    /// [`SettingError`] for a setting that cannot be read, with its file and line or its variable.
    pub fn read(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingError> {
        let (config, follow) = (ServerConfig::default(), Follow::default());
        let mut configured = Self { config, unknown: Vec::new(), follow, origins: BTreeMap::new() };
        if let Some(path) = file {
            configured.read_file(path)?;
        }
        let (variables, unknown) = environment::read(environment)?;
        for variable in variables {
            variable.settings.apply(&mut configured);
            configured.origins.insert(variable.key, variable.name);
        }
        configured.unknown = unknown;
        Ok(configured)
    }

    fn read_file(&mut self, path: &Path) -> Result<(), SettingError> {
        let text = std::fs::read_to_string(path).map_err(|error| SettingError {
            place: path.display().to_string(),
            cause: format!("the configuration cannot be read: {error}; name a file as --config says"),
        })?;
        let document = Document::new(path, &text);
        let settings: Settings = document.read()?;
        settings.relative_to(path.parent().unwrap_or(Path::new(""))).apply(self);
        let places = document.keys().filter_map(|key| Some((key.into(), document.place(key)?)));
        self.origins = places.collect();
        Ok(())
    }

    /// Returns the settings of the section `follow`, for the caller to override. From then on, the
    /// server follows another one; [`Configured::check`] refuses this without an address.
    pub fn following(&mut self) -> &mut Follow {
        self.config.follow.get_or_insert_with(|| self.follow.clone())
    }

    /// Returns warnings about settings without effect: environment variables that look like
    /// settings but are not, and settings of a section that is not in use.
    pub fn warnings(&self) -> Vec<String> {
        let unused =
            self.origins.iter().filter(|(key, _)| self.config.follow.is_none() && key.starts_with("follow."));
        let unused = unused.map(|(_, place)| {
            format!("{place} has no effect: this server follows no other one (follow.url, --follow)")
        });
        self.unknown.iter().cloned().chain(unused).collect()
    }

    /// Notes that the caller has overridden a key, and the caller's name for it, such as
    /// `--listen`.
    pub fn overridden(&mut self, key: &str, by: &str) {
        self.origins.insert(key.into(), by.into());
    }

    /// Checks everything that does not need a running server: settings are consistent, and the
    /// files that they name can be read.
    ///
    /// # Errors
    /// [`SettingError`] for the first wrong setting, with its origin.
    pub fn check(&self) -> Result<(), SettingError> {
        self.config.check().map_err(|wrong| self.placed(wrong))
    }

    /// Checks everything that [`Configured::check`] checks except databases, for a server whose
    /// databases come from elsewhere.
    ///
    /// # Errors
    /// Those of [`Configured::check`].
    pub fn check_settings(&self) -> Result<(), SettingError> {
        self.config.check_settings().map_err(|wrong| self.placed(wrong))
    }

    fn placed(&self, wrong: WrongSetting) -> SettingError {
        let place = self.origins.get(&wrong.key).cloned().unwrap_or(wrong.key);
        SettingError { place, cause: wrong.cause }
    }
}

#[cfg(test)]
mod tests;
