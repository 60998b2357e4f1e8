//! A server of Apple's protocol without HTTP, for tests of clients:
//! `apple-look-ups KEYWORDS VALUE_BYTES SET COMPRESSION SHARDS`.
//!
//! Keyword i is `+1555` and i in 7 digits; its value is the number i as 4 little-endian bytes, over
//! and over. The program reads requests from its input: the length as 4 little-endian bytes, then a
//! kind and a message. A response is the length, then 0 and a message, or 1 and an error.
//!
//! | kind | message | response |
//! |---|---|---|
//! | `c` | `ConfigRequest` | `ConfigResponse` |
//! | `k` | `EvaluationKeys` | empty |
//! | `q` | `Requests` | `Responses` |

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use spirea_apple::keyword::{BucketSize, KeywordHash, Tables};
use spirea_apple::messages::{
    Config, ConfigRequest, ConfigResponse, EvaluationKeys, Inbound, KeyStatus, Requests, Response, Responses,
    Sha256, Sharding,
};
use spirea_apple::{AppleError, Arithmetic, Compression, Database, EvaluationKey, Set, UseCase};
use spirea_cpu::CpuBackend;

/// Name of the only use case.
const NAME: &str = "net.example.lookup.block";
/// Number of tables of a shard.
const TABLES: usize = 2;

struct Server {
    use_case: UseCase<CpuBackend>,
    key: Option<EvaluationKey>,
}

impl Server {
    fn answer(&mut self, kind: u8, message: Bytes) -> Result<Vec<u8>, AppleError> {
        match kind {
            b'c' => self.config(&ConfigRequest::from_bytes(message)?),
            b'k' => self.keep_key(&EvaluationKeys::from_bytes(message)?),
            b'q' => self.look_up(&Requests::from_bytes(message)?),
            _ => Err(AppleError::Unsupported("a request of this kind")),
        }
    }

    fn config(&self, request: &ConfigRequest) -> Result<Vec<u8>, AppleError> {
        if request.usecases.iter().any(|name| name != NAME) {
            return Err(AppleError::Unsupported("this use case"));
        }
        let config = Config {
            pir_config: Some(self.use_case.config().clone()),
            config_id: self.use_case.config_id().clone(),
            reuse_existing_config: false,
        };
        let key_config = Some(self.use_case.key_config().message());
        let response = ConfigResponse {
            configs: BTreeMap::from([(NAME.to_owned(), config)]),
            key_info: vec![KeyStatus { timestamp: 0, key_config }],
        };
        Ok(response.encode_to_vec())
    }

    fn keep_key(&mut self, upload: &EvaluationKeys) -> Result<Vec<u8>, AppleError> {
        let key = upload.keys.iter().find_map(|upload| upload.evaluation_key.as_ref());
        let key = key.ok_or(AppleError::Unsupported("an upload without a key"))?;
        self.key = Some(EvaluationKey::parse(self.use_case.key_config(), key)?);
        Ok(Vec::new())
    }

    fn look_up(&self, requests: &Requests) -> Result<Vec<u8>, AppleError> {
        let responses = requests.requests.iter().map(|request| {
            let request = request.pir_request.as_ref().ok_or(AppleError::Unsupported("this request"))?;
            let pir_response = Some(self.use_case.answer(request, self.key.as_ref())?);
            Ok(Response { pir_response })
        });
        Ok(Responses { responses: responses.collect::<Result<_, AppleError>>()? }.encode_to_vec())
    }
}

fn use_case(arguments: &[String]) -> Result<UseCase<CpuBackend>, Box<dyn Error>> {
    let [keywords, value_bytes, set, compression, shards] = arguments else {
        return Err("usage: apple-look-ups KEYWORDS VALUE_BYTES SET COMPRESSION SHARDS".into());
    };
    let set = Set::ALL.into_iter().find(|known| known.name() == set).ok_or("an unknown set")?;
    let compression = match compression.as_str() {
        "none" => Compression::None,
        "hybrid" => Compression::Hybrid,
        "max" => Compression::Max,
        _ => return Err("COMPRESSION is none, hybrid or max".into()),
    };
    let (keywords, value_bytes, shards): (u32, usize, u64) =
        (keywords.parse()?, value_bytes.parse()?, shards.parse()?);
    let sharding = Sharding::Sha256(Sha256 {});
    let mut rows = vec![Vec::new(); shards as usize];
    for i in 0..keywords {
        let keyword = format!("+1555{i:07}").into_bytes();
        let value: Vec<u8> = i.to_le_bytes().into_iter().cycle().take(value_bytes).collect();
        rows[KeywordHash::of(&keyword).shard(sharding, shards) as usize].push((keyword, value));
    }
    let arithmetic = Arc::new(Arithmetic::new(Arc::new(CpuBackend::new(1)?))?);
    let databases = rows.iter().map(|rows| {
        let rows = rows.iter().map(|(keyword, value)| (&keyword[..], &value[..]));
        let tables = Tables::build(set, TABLES, BucketSize::ByPlaintexts, rows)?;
        Database::new(Arc::clone(&arithmetic), tables.shape(set)?, &tables)
    });
    Ok(UseCase::new(databases.collect::<Result<_, AppleError>>()?, sharding, compression)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut server = Server { use_case: use_case(&arguments)?, key: None };
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut length = [0; 4];
    while input.read_exact(&mut length).is_ok() {
        let mut request = Vec::new();
        (&mut input).take(u32::from_le_bytes(length).into()).read_to_end(&mut request)?;
        let (kind, message) = request.split_first().ok_or("an empty request")?;
        let response = match server.answer(*kind, Bytes::copy_from_slice(message)) {
            Ok(message) => [&[0], &message[..]].concat(),
            Err(error) => [&[1], error.to_string().as_bytes()].concat(),
        };
        output.write_all(&(response.len() as u32).to_le_bytes())?;
        output.write_all(&response)?;
        output.flush()?;
    }
    Ok(())
}
