//! Parts of help texts besides the options: examples, and the first steps.

use spirea_console::help::Texts;

/// Output of the command without arguments: the first steps.
pub const FIRST_STEPS: &str = "\
Private information retrieval: serve a table, look records up, and the server does not learn which.

Three commands to begin with:
  spirea build --input table.csv --key COLUMN --value COLUMN --out table
  spirea serve table
  spirea get http://127.0.0.1:8080 table KEY

`spirea --help` lists all commands, `spirea COMMAND --help` the options of one, with examples.
";

/// Help texts of all commands.
pub const TEXTS: Texts<'_> = Texts { examples: EXAMPLES, judging: JUDGING };

/// Commands with exit statuses other than 0 for success and 2 for an error.
const JUDGING: &[&str] = &["get", "plan", "doctor", "gpu check"];

/// Examples of each command: a description, and the command line.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "build",
        &[
            (
                "Build a snapshot of a CSV file, for look-ups by key",
                "spirea build --input prices.csv --key product --value price --out prices",
            ),
            (
                "Build a table of two fields for look-ups by position, in place of a former one",
                "spirea build --input rows.parquet --value name --value note --out rows --overwrite",
            ),
            (
                "Build a set of keys for two servers, of a compressed list without a header",
                "spirea build --input list.csv.gz --no-header --columns domain --key domain --protocol dpf-xor --out list",
            ),
            (
                "Build a table of caller ID, for Apple's clients too",
                "spirea build --input numbers.csv --key number --value name block --normalise e164:US --for apple --bundle net.example.lookup --out numbers",
            ),
        ],
    ),
    (
        "plan",
        &[
            ("Compare the protocols for a million records", "spirea plan --records 1e6 --record-bytes 256"),
            (
                "Plan for the table of a file and 50 look-ups a second",
                "spirea plan --input prices.csv --key product --value price --qps 50",
            ),
            (
                "Plan again at rates that were measured before",
                "spirea plan --snapshot prices --rates rates.json",
            ),
        ],
    ),
    (
        "inspect",
        &[
            ("Explain a snapshot, and check its files", "spirea inspect prices --verify"),
            ("Say what a look-up tells whom", "spirea inspect prices --leaks"),
        ],
    ),
    (
        "publish",
        &[
            (
                "Publish a snapshot as the base of a repository",
                "spirea publish --repository versions --base prices",
            ),
            (
                "Publish changed rows of it",
                "spirea publish --repository versions --put changed.csv --key product",
            ),
            (
                "Publish changes through the server that has the repository",
                "spirea publish --server http://127.0.0.1:8081 --database prices --changes changes.jsonl",
            ),
            (
                "Publish what a producer writes to standard input, a version every two seconds",
                "spirea publish --repository versions --stream --every-seconds 2",
            ),
        ],
    ),
    (
        "rollback",
        &[
            ("Go back to the version before", "spirea rollback --repository versions"),
            (
                "Go back to the version that begins with these digits",
                "spirea rollback --repository versions --to 3fa9",
            ),
        ],
    ),
    ("compact", &[("Make one base of a base and its changes", "spirea compact --repository versions")]),
    ("key new", &[("Make a key, and keep the public one for clients", "spirea key new operator.key")]),
    ("key public", &[("Print the public key", "spirea key public operator.key")]),
    (
        "key gateway",
        &[("Make a key of the OHTTP gateway for Apple's clients", "spirea key gateway gateway.key")],
    ),
    ("sign", &[("Sign a snapshot", "spirea sign prices --key operator.key")]),
    (
        "serve",
        &[
            ("Serve a snapshot to programs of this machine", "spirea serve prices"),
            (
                "Serve a repository that can be published to, over TLS, to clients with tokens",
                "spirea serve versions --listen 0.0.0.0:8443 --admin-listen 127.0.0.1:8081 --tls-certificate server.pem --tls-key server.key --tokens tokens.toml",
            ),
            ("Adopt the snapshots that a job builds every night", "spirea serve prices --watch"),
            ("Check a file of settings", "spirea serve --config spirea.toml --check-config"),
        ],
    ),
    (
        "worker",
        &[(
            "Serve the first of four shares",
            "spirea worker --snapshot prices --share 0/4 --listen 10.0.0.7:7000 --tls-cert worker.pem --tls-key worker.key --client-ca ca.pem",
        )],
    ),
    (
        "worker-files",
        &[(
            "List the bytes that the first of four workers needs",
            "spirea worker-files --snapshot prices --share 0/4",
        )],
    ),
    (
        "coordinator",
        &[(
            "Serve the database whose shares the workers of a placement have",
            "spirea coordinator --placement placement.json --worker-ca ca.pem --tls-client-cert coordinator.pem --tls-client-key coordinator.key prices",
        )],
    ),
    ("cluster", &[("Start the services of a file", "spirea cluster up cluster.yaml")]),
    (
        "token new",
        &[(
            "Make a token that may query 1000 times a day",
            "spirea token new --name phone --scope query --quota 1000/day",
        )],
    ),
    (
        "token issuer",
        &[(
            "Make a key whose users get 100 private tokens a day",
            "spirea token issuer free.pem --tier free --issues 100/day",
        )],
    ),
    ("token user", &[("Make a token for a user of a tier", "spirea token user --tier free")]),
    (
        "get",
        &[
            ("Look a key up", "spirea get http://127.0.0.1:8080 prices apple"),
            (
                "Look a list of keys up, one JSON object a line, and go on where it was interrupted",
                "spirea get https://pir.example.org prices --keys-from keys.txt --json --resume progress",
            ),
            (
                "Look rows up by position, at two servers that do not work together",
                "spirea get https://a.example.org rows --other https://b.example.org --index 3 17",
            ),
        ],
    ),
    (
        "doctor",
        &[
            ("Examine the way to a server", "spirea doctor https://pir.example.org"),
            ("Look something up in one database", "spirea doctor http://127.0.0.1:8080 --database prices"),
            ("Collect what a bug report needs", "spirea doctor --report"),
        ],
    ),
    ("gpu check", &[("Check the GPU", "spirea gpu check")]),
    ("completions", &[("Print the completions of bash", "spirea completions bash")]),
    ("man", &[("Write man pages where man finds them", "spirea man --out /usr/local/share/man/man1")]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use spirea_console::help::{check, leaves};

    use super::*;

    #[test]
    fn every_command_has_examples_that_parse_as_its_own() {
        check(&crate::command(), &TEXTS).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn the_first_steps_parse() {
        let lines: Vec<_> = FIRST_STEPS.lines().filter_map(|line| line.strip_prefix("  ")).collect();
        assert_eq!(lines.len(), 3);
        for line in lines {
            let parsed = crate::command().try_get_matches_from(line.split(' '));
            parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn long_commands_group_their_options() {
        /// Maximum number of options in a group that is read at a glance.
        const LONG: usize = 12;
        for path in ["build", "serve", "get", "publish", "plan"] {
            let (_, command) =
                leaves(&crate::command()).into_iter().find(|(found, _)| found == path).unwrap();
            let mut groups = BTreeMap::<_, usize>::new();
            for option in
                command.get_arguments().filter(|option| !option.is_positional() && !option.is_hide_set())
            {
                *groups.entry(option.get_help_heading().map(str::to_owned)).or_default() += 1;
            }
            let long: Vec<_> = groups.iter().filter(|(_, options)| **options > LONG).collect();
            assert!(long.is_empty(), "{path}: {long:?}");
        }
    }
}
