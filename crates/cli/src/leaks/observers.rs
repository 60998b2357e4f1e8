//! Participants and observers of a look-up, and the texts about what they learn.

use serde::Serialize;
use spirea_client::Keys;
use spirea_console::output::bytes;
use spirea_lattice::noise::HintRounding;
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::signature::PublicKey;
use spirea_protocols::{Sizes, TableKind};
use spirea_store::Manifest;

use super::figures::{Figures, Growing};

/// A participant or an observer of a look-up.
#[derive(Debug, Serialize)]
pub struct Observer {
    pub(super) who: &'static str,
    pub(super) learns: Vec<String>,
    pub(super) does_not_learn: Vec<String>,
}

/// A version, with the data for its report.
pub(super) struct Subject<'s> {
    pub(super) figures: Figures,
    pub(super) base: &'s Manifest,
    pub(super) version: String,
    pub(super) key: Option<PublicKey>,
}

/// Assumption of the estimate if there are evaluation keys.
const CIRCULAR: &str = ", and on the assumption of circular security, which has no proof: evaluation keys encrypt the client's secret, its square and its automorphisms under itself";

/// Returns the bits about earlier queries that the first refusal in the life of registered keys can
/// reveal, if keys live for `queries` queries.
pub fn refusal_bits(queries: u64) -> f64 {
    (queries as f64).log2()
}

/// Formats the length of a message.
fn growing(Growing { first, further }: Growing) -> String {
    format!("{first} bytes with one look-up, {further} more with each further one")
}

impl Subject<'_> {
    pub(super) fn observers(&self) -> Vec<Observer> {
        let together = (self.figures.servers > 1).then(|| self.together());
        [Some(self.server()), together, Some(self.network()), Some(self.client()), Some(self.answer())]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Formats the number of values that a client can ask for.
    fn values(&self) -> String {
        let more =
            self.figures.changes.map(|changes| format!(", with {changes} changes")).unwrap_or_default();
        format!("{} values{more}", self.figures.values)
    }

    fn server(&self) -> Observer {
        let Figures { request_bytes, response_bytes, keys, keys_bytes, hint_bytes, servers, .. } =
            self.figures;
        let mut learns = vec![
            "that someone asks: when, from which address, over which connection, and with which token if it asks for tokens".into(),
            "where it, or a proxy before it, gives TLS tickets: which earlier connections were a browser's own, which may resume their sessions; `spirea serve` gives none".into(),
            format!("the database, {}, and which version the client holds: about when it was last there", self.base.name),
            format!("how many look-ups a request has: {}", growing(request_bytes)),
            match keys {
                None => "no more that links requests: they name no evaluation keys".into(),
                Some(KeyDelivery::PerQuery) => {
                    "no more that links requests, if all clients are given the same version: every query brings evaluation keys of its own, and their secret is used for nothing else".into()
                }
                Some(KeyDelivery::Registered) => format!(
                    "that requests come from one client: evaluation keys of {} are registered once, and every request names their hash, which links them until the client makes new keys, as each new session does, and each after {} queries, {} hours or an answer that does not verify",
                    bytes(keys_bytes as u64),
                    self.base.table.key_queries(),
                    Keys::LONGEST_USE.as_secs() / 3600
                ),
            },
        ];
        if self.base.protocol.hint_lasts() {
            learns.push(format!(
                "which rows of the hint of {} a client fetches: all, or those that changed since the version it has",
                bytes(hint_bytes)
            ));
        }
        learns.push(
            "if it damages records on purpose and watches who asks again: whether the record asked for was among them".into(),
        );
        if keys_bytes > 0 {
            learns.push(format!(
                "if it changes answers and watches which keys come next: whether all answers of a look-up were accepted, at most one bit. The first refusal ends the key, and reveals which of its look-ups it was: at most {:.0} bits about earlier ones",
                refusal_bits(self.base.table.key_queries())
            ));
            let bits = self.base.protocol.combined_answer_bits;
            if bits > 0.0 && self.base.table.proofs.is_none() {
                learns.push(format!(
                    "if it knows what a client asks for now and combines ciphertexts: up to {bits:.1} bits of an earlier index with each answer, because records carry no inclusion proofs"
                ));
            }
        }
        let unable = match servers {
            1 => format!(
                "which of {} is asked for: {:.0} bits of security by the estimate of the parameters{}",
                self.values(),
                self.figures.security_bits,
                if keys.is_some() { CIRCULAR } else { "" }
            ),
            _ => format!(
                "which of {} is asked for, as long as the other does not tell it: {:.0} bits of security{}",
                self.values(),
                self.figures.security_bits,
                self.base.protocol.prf().map(|prf| format!(" of {prf}")).unwrap_or_default()
            ),
        };
        Observer {
            who: if servers == 1 { "the server" } else { "each of the two servers alone" },
            learns,
            does_not_learn: vec![
                unable,
                "whether two look-ups are for the same, or find anything".into(),
                format!(
                    "anything from the size of what it answers, which goes by the number of look-ups alone: {}",
                    growing(response_bytes)
                ),
            ],
        }
    }

    fn together(&self) -> Observer {
        let Figures { records, values_in_bucket, .. } = self.figures;
        let what = match values_in_bucket {
            None => format!("which of the {records} rows is asked for"),
            Some(mean) => {
                format!("which of the {records} buckets is asked for, of {mean:.1} values on average")
            }
        };
        let not = match self.base.table.kind {
            TableKind::Index => Vec::new(),
            TableKind::Keyword => vec![
                "the key itself, unless they guess it: whoever does can test the guess against the bucket"
                    .into(),
            ],
        };
        Observer {
            who: "the two servers, if they work together, or whoever reads both",
            learns: vec![format!("{what}, of every look-up")],
            does_not_learn: not,
        }
    }

    fn network(&self) -> Observer {
        let Figures { request_bytes, servers, .. } = self.figures;
        let mut learns = vec![
            format!(
                "over TLS: both addresses, times, and sizes, which tell the database and how many look-ups a request has; without its headers, {}",
                growing(request_bytes)
            ),
            "without TLS: all that the server learns, and the token; it can change what passes".into(),
        ];
        if servers > 1 {
            learns.push("without TLS, on the way to both servers: what they learn together".into());
        }
        let proxied = match servers {
            1 => {
                "a proxy of the environment (HTTP_PROXY) that a client goes through: the same, without TLS and over it"
            }
            _ => {
                "a proxy of the environment (HTTP_PROXY) that a client goes through: the same, without TLS and over it; clients \
                 refuse one that reads both shares without TLS, unless they accept it"
            }
        };
        learns.push(proxied.into());
        Observer {
            who: "whoever watches the network",
            learns,
            does_not_learn: vec!["over TLS: the name of the database, the token, the hash of keys".into()],
        }
    }

    fn client(&self) -> Observer {
        let Figures { records, records_in_answer, values_in_bucket, changes, .. } = self.figures;
        let manifest = self.base;
        let hint_bytes = manifest.protocol.sizes.hint_bytes;
        let mut learns = vec![format!(
            "what is public: the manifest with {} values, their fields ({}), the bytes of all and of the longest, when it was built",
            manifest.table.entries,
            manifest.table.fields.join(", ")
        )];
        if let Some(changes) = changes {
            let spread = match manifest.protocol.clients_keep() {
                true => "",
                false => {
                    ", and from the widths of the delta's buckets, which are public, how their bytes are spread over places"
                }
            };
            learns.push(format!("that {changes} values changed since the base was built{spread}"));
        }
        let neighbours = match manifest.table.kind {
            TableKind::Keyword => {
                let mean = values_in_bucket.unwrap_or_default();
                format!(
                    "with its value, the others of its bucket, {mean:.1} on average, and the hashes of their keys, which tell a key to whoever guesses it"
                )
            }
            TableKind::Index => match values_in_bucket {
                Some(mean) => {
                    format!("with its value, those of the rows beside it in its bucket, {mean:.1} on average")
                }
                None => "its value".into(),
            },
        };
        learns.push(neighbours);
        if manifest.table.widths.is_some() {
            learns.push(
                "from the widths of the buckets, which are public: how the bytes of the values are spread over places or rows, and so about where long ones lie"
                    .into(),
            );
        }
        if records_in_answer > 1 {
            learns.push(format!(
                "if it decodes all of an answer: {records_in_answer} whole records of {records}, those stored in one unit"
            ));
        }
        let look_ups = records.div_ceil(records_in_answer);
        match (self.figures.hint_determines_table, hint_bytes) {
            (true, _) => learns.push(match self.base.protocol.hint_bits {
                HintRounding::EXACT_BITS => format!(
                    "everything at once: its hint of {} determines the whole table, by linear algebra",
                    bytes(hint_bytes)
                ),
                bits => format!(
                    "presumably everything at once: its hint of {} has the upper {bits} bits of equations that determine the whole table",
                    bytes(hint_bytes)
                ),
            }),
            (false, 0) => {}
            (false, _) => learns.push(format!(
                "with its hint of {}, {:.2} times the matrix, numbers computed from all records: nothing is promised of what they tell",
                bytes(hint_bytes),
                hint_bytes as f64 / manifest.protocol.matrix_bytes() as f64
            )),
        }
        learns.push(format!("the whole table, if it asks {look_ups} times: it is not kept from its clients"));
        Observer { who: "the client", learns, does_not_learn: vec!["what other clients ask for".into()] }
    }

    fn answer(&self) -> Observer {
        let Figures { failure, false_match_log2, checksum_log2, .. } = self.figures;
        let Sizes { hint_bytes, .. } = self.base.protocol.sizes;
        let mut learns = vec![
            match failure {
                None => "that nothing was decoded wrongly: there is no noise".into(),
                Some(failure) => format!(
                    "what was asked for, but for noise with probability {failure}: and then the checksum tells"
                ),
            },
            format!(
                "by its checksum that nothing was damaged by chance{}, but with probability 2^{checksum_log2:.0}",
                if hint_bytes > 0 { ", nor the hint" } else { "" }
            ),
        ];
        if let Some(log2) = false_match_log2 {
            learns.push(format!("that a key is absent, or its value: an absent one is found with probability below 2^{log2:.0}"));
        }
        if let Some(key) = &self.key {
            learns.push(format!(
                "to whoever pins {key}: that the table, its parameters and its hint are of the version that this key signed"
            ));
        }
        let mut does_not_learn = vec![
            "that what the operator put there is true, or that all clients are shown the same version".into(),
        ];
        match &self.base.table.proofs {
            Some(proofs) => learns.push(format!(
                "that the record is the one in this version, by an inclusion proof of {} levels",
                proofs.levels
            )),
            None => does_not_learn.push(
                "that the record is the operator's: a server that lies on purpose computes checksums, for their salt is public".into(),
            ),
        }
        if self.key.is_none() {
            does_not_learn.push(
                "whether the version is the operator's: it is not signed, and whoever serves can make one"
                    .into(),
            );
        }
        Observer { who: "whoever has an answer", learns, does_not_learn }
    }
}
