use std::path::PathBuf;

use super::*;

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Configured, SettingError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spirea.toml");
    std::fs::write(&path, text).unwrap();
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let folder = format!("{}/", folder.path().display());
    Configured::read(Some(&path), variables)
        .map_err(|error| SettingError { place: error.place.replace(&folder, ""), ..error })
}

fn example() -> &'static str {
    include_str!("../../../../deploy/spirea.toml")
}

#[test]
fn the_example_holds_every_key_with_its_default() {
    let configured = read(example(), &[]).unwrap();
    assert_eq!(format!("{:?}", configured.config), format!("{:?}", ServerConfig::default()));

    let complete: String = example()
        .lines()
        .map(|line| {
            line.strip_prefix("# ").filter(|rest| rest.contains(" = ")).unwrap_or(line).to_owned() + "\n"
        })
        .collect();
    let document = Document::new(Path::new("example"), &complete);
    let Configured { config, .. } = read(&complete, &[]).unwrap();
    let set: Vec<&str> = document.keys().collect();
    for key in known_keys() {
        assert!(set.contains(&key.as_str()), "{key} is not in deploy/spirea.toml");
    }
    assert_eq!(config.snapshots.len(), 2);
    assert!(config.tls.is_some() && config.tokens.is_some() && config.admin_listen.is_some());
}

#[test]
fn what_is_wrong_is_told_with_file_line_key_and_remedy() {
    for (text, place, cause) in [
        (
            "listen = \"here\"",
            "spirea.toml:1: listen",
            "\"here\": an address to listen on is an IP address and a port",
        ),
        ("\n\nlimits.body_memroy = 5", "spirea.toml:3: limits.body_memroy", "did you mean body_memory?"),
        ("[limits]\nconections = 5", "spirea.toml:2: limits.conections", "did you mean connections?"),
        ("[limits]\n\nread_timeout = 30", "spirea.toml:3: limits.read_timeout", "such as 30s"),
        ("[limits]\nbody_memory = \"1XB\"", "spirea.toml:2: limits.body_memory", "such as 512MiB"),
        ("queue = \"many\"", "spirea.toml:1: queue", "expected usize"),
        ("[colour]\nx = 1", "spirea.toml:1: colour", "the keys here are listen, admin_listen"),
        ("memory = \"paper\"", "spirea.toml:1: memory", "none of copied, mapped"),
        ("[log]\nlevel = \"loud\"", "spirea.toml:2: log.level", "\"loud\""),
        (
            "[[databases]]\npath = \"a\"\n[[databases]]\nfolder = \"b\"",
            "spirea.toml:4: databases.1.folder",
            "path",
        ),
        ("[[databases]]\n", "spirea.toml:1: databases.0", "the key path is missing"),
        ("[telemetry]\notlp = \"https://c\"", "spirea.toml:2: telemetry.otlp", "without TLS"),
        ("party = 2", "spirea.toml:1: party", "\"2\""),
        ("listen = ", "spirea.toml:1", ""),
        ("a = 1\na = 2", "spirea.toml:2", "duplicate"),
    ] {
        let error = read(text, &[]).unwrap_err();
        assert!(error.place == place && error.cause.contains(cause), "{text:?}: {error}");
    }
    let error = Configured::read(Some(Path::new("/absent/spirea.toml")), []).unwrap_err();
    assert!(
        error.to_string().starts_with("/absent/spirea.toml: the configuration cannot be read"),
        "{error}"
    );
}

#[test]
fn the_environment_overrides_the_file() {
    let file = "listen = \"127.0.0.1:1\"\nthreads = 3\n[limits]\nconnections = 7\n[tokens]\nfile = \"t\"\n";
    let configured = read(
        file,
        &[
            ("SPIREA_LISTEN", "127.0.0.1:2"),
            ("SPIREA_LIMITS__CONNECTIONS", "9"),
            ("SPIREA_LIMITS__BODY_MEMORY", "2GiB"),
            ("SPIREA_LIMITS__IDLE_TIMEOUT", "5m"),
            ("SPIREA_DEVELOPMENT", "true"),
            ("SPIREA_DATABASES", "[{ path = \"one\" }, { path = \"two\" }]"),
            ("SPIREA_KEYS__FOLDER", "12"),
            ("SPIREA_PARTY", "1"),
            ("UNRELATED", "1"),
        ],
    )
    .unwrap();
    let (warnings, config) = (configured.warnings(), configured.config);
    assert_eq!((config.listen.port(), config.threads, config.limits.connections), (2, 3, 9));
    assert_eq!((config.limits.body_memory, config.limits.idle_timeout), (2 << 30, Duration::from_secs(300)));
    assert!(config.development && config.party.is_some() && warnings.is_empty());
    // Paths in the environment are relative to the working directory, those in the file to the
    // file's folder.
    assert_eq!(config.snapshots, ["one", "two"].map(PathBuf::from));
    assert_eq!(config.keys.folder, Some("12".into()));
    assert!(config.tokens.unwrap().is_absolute());
}

#[test]
fn wrong_variables_are_told_and_unknown_ones_are_warned_of() {
    let error = read("", &[("SPIREA_LIMITS__CONNECTIONS", "many")]).unwrap_err();
    assert_eq!(error.place, "SPIREA_LIMITS__CONNECTIONS");
    let error = read("", &[("SPIREA_LIMITS__READ_TIMEOUT", "30")]).unwrap_err();
    assert!(error.cause.contains("such as 30s"), "{error}");
    let names = ["SPIREA_LIMITS__CONECTIONS", "SPIREA_SERVICE_HOST", "SPIREA_TOKEN", "SPIREA_PORT_8080_TCP"];
    let warnings = read("", &names.map(|name| (name, "x"))).unwrap().warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("did you mean SPIREA_LIMITS__CONNECTIONS?"));
}

#[test]
fn checks_name_what_set_the_value() {
    let check = |text: &str, variables: &[(&str, &str)]| read(text, variables).unwrap().check().unwrap_err();
    let error = check("\nlisten = \"0.0.0.0:80\"", &[]);
    assert!(error.place.ends_with("spirea.toml:2: listen") && error.cause.contains("--insecure-no-auth"));
    let error = check("", &[("SPIREA_ADMIN_LISTEN", "[::]:80")]);
    assert_eq!(error.place, "SPIREA_ADMIN_LISTEN");
    let error = check("admin_listen = \"127.0.0.1:8080\"", &[]);
    assert!(error.place.ends_with("spirea.toml:1: admin_listen"), "{error}");
    let error = check("[tls]\ncertificate = \"absent.pem\"\nkey = \"absent.pem\"", &[]);
    assert!(error.place.ends_with("spirea.toml:2: tls.certificate") && error.cause.contains("absent.pem"));
    let error = check("[tokens]\nfile = \"absent.toml\"", &[]);
    assert!(error.place.ends_with("spirea.toml:2: tokens.file"), "{error}");
    let error = check("[limits]\nwrite_timeout = \"0s\"", &[]);
    assert!(error.place.ends_with("spirea.toml:2: limits.write_timeout"), "{error}");
    let error = check("[keys]\nexpiry = \"0s\"", &[]);
    assert!(error.place.ends_with("spirea.toml:2: keys.expiry"), "{error}");
    let error = check("[keys]\nredis = \"http://:secret@host\"", &[]);
    assert!(error.place.ends_with("spirea.toml:2: keys.redis") && !error.cause.contains("secret"), "{error}");
    let error = check("databases = [{ path = \"absent\" }]", &[]);
    assert!(error.place.ends_with("spirea.toml:1: databases.0.path"), "{error}");
    let mut configured = read("listen = \"127.0.0.1:1\"", &[]).unwrap();
    configured.config.listen = ([0, 0, 0, 0], 80).into();
    configured.overridden("listen", "--listen");
    assert_eq!(configured.check().unwrap_err().place, "--listen");
}

#[test]
fn settings_of_followers_do_not_make_a_server_follow() {
    let file = "[follow]\ninterval = \"1m\"\npin_key = \"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\"\n";
    let none: &[(&str, &str)] = &[];
    let some: &[(&str, &str)] = &[("SPIREA_FOLLOW__INTERVAL", "2s"), ("SPIREA_FOLLOW__TOKEN_FILE", "absent")];
    for (file, variables) in [(file, none), ("", some), (file, some)] {
        let mut configured = read(file, variables).unwrap();
        assert!(configured.config.follow.is_none());
        configured.check_settings().unwrap();
        let warnings = configured.warnings();
        assert!(warnings.len() >= 2 && warnings.iter().all(|warning| warning.contains("--follow")));
        // The command line names the server; the other settings of the section then take effect.
        configured.following().url = "http://127.0.0.1:1".into();
        let follow = configured.config.follow.as_ref().unwrap();
        let seconds = if variables.is_empty() { 60 } else { 2 };
        assert_eq!((follow.interval.as_secs(), follow.key.is_some()), (seconds, !file.is_empty()));
        assert!(configured.warnings().is_empty());
    }

    // The file names the server, and the environment overrides one of its settings.
    let file = "[follow]\nurl = \"http://127.0.0.1:1\"\ninterval = \"1m\"\n";
    let configured = read(file, &[("SPIREA_FOLLOW__INTERVAL", "2s")]).unwrap();
    configured.check_settings().unwrap();
    let follow = configured.config.follow.unwrap();
    assert_eq!((&*follow.url, follow.interval.as_secs()), ("http://127.0.0.1:1", 2));

    // The error of an empty address names the variable that set it.
    let error = read("", &[("SPIREA_FOLLOW__URL", "")]).unwrap().check_settings().unwrap_err();
    assert_eq!(error.place, "SPIREA_FOLLOW__URL");
    let error = read("[follow]\nurl = \"http://127.0.0.1:1\"\ninterval = \"0s\"", &[]).unwrap();
    assert!(error.check_settings().unwrap_err().place.ends_with("spirea.toml:3: follow.interval"));
}

#[test]
fn a_certificate_without_its_key_does_not_mean_unencrypted() {
    let name = |key: &str| format!("[tls]\n{key} = \"server.pem\"");
    for (given, missing) in [("certificate", "tls.key"), ("key", "tls.certificate")] {
        let error = read(&name(given), &[]).unwrap().check_settings().unwrap_err();
        assert!(error.place == missing && error.cause.contains(given), "{error}");
    }
}
