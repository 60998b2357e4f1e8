//! Look-ups of the client for tests, in shapes that no recording has, and requests that are
//! refused.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use spirea_cpu::CpuBackend;

use super::client::Client;
use crate::keyword::{BucketSize, Tables};
use crate::messages::{
    Ciphertext, DoubleMod, EvaluationKeyMetadata, EvaluationKeys, Inbound, PirRequest,
    SerializedEvaluationKey, Sharding, UploadedKey,
};
use crate::{
    AppleError, Arithmetic, Compression, Database, EvaluationKey, KeyConfig, Query, Set, Shape, Sizes,
    UseCase,
};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows(count: usize, length: usize) -> Rows {
    (0..count).map(|i| (format!("+1555{i:07}").into_bytes(), vec![i as u8 + 1; length])).collect()
}

fn arithmetic() -> Arc<Arithmetic<CpuBackend>> {
    static SHARED: LazyLock<Arc<Arithmetic<CpuBackend>>> =
        LazyLock::new(|| Arc::new(Arithmetic::new(Arc::new(CpuBackend::new(1).unwrap())).unwrap()));
    Arc::clone(&SHARED)
}

fn tables(set: Set, tables: usize, rows: &Rows) -> Tables {
    let rows = rows.iter().map(|(key, value)| (&key[..], &value[..]));
    Tables::build(set, tables, BucketSize::ByPlaintexts, rows).unwrap()
}

fn use_case(set: Set, compression: Compression, rows: &Rows) -> UseCase<CpuBackend> {
    let tables = tables(set, 2, rows);
    let database = Database::new(arithmetic(), tables.shape(set).unwrap(), &tables).unwrap();
    UseCase::new(vec![database], Sharding::Sha256(crate::messages::Sha256 {}), compression).unwrap()
}

fn request(use_case: &UseCase<CpuBackend>, client: &mut Client, keyword: &[u8]) -> PirRequest {
    PirRequest {
        query: Some(client.query(use_case.shards()[0].shape(), keyword)),
        evaluation_key_metadata: Some(EvaluationKeyMetadata {
            timestamp: 1,
            identifier: use_case.key_config().hash(),
        }),
        configuration_hash: use_case.config_id().clone(),
        ..Default::default()
    }
}

fn parsed_key(use_case: &UseCase<CpuBackend>, client: &mut Client) -> EvaluationKey {
    let message = client.evaluation_key(use_case.key_config());
    EvaluationKey::parse(use_case.key_config(), &message).unwrap()
}

#[test]
fn values_are_found_under_every_set_and_compression() {
    let rows = rows(60, 300);
    for (i, set) in Set::ALL.into_iter().enumerate() {
        for (j, compression) in
            [Compression::None, Compression::Hybrid, Compression::Max].into_iter().enumerate()
        {
            let use_case = use_case(set, compression, &rows);
            let mut client = Client::new(10 * i as u64 + j as u64);
            let key = parsed_key(&use_case, &mut client);
            for keyword in [&rows[17 * (i + 1)].0[..], b"absent"] {
                let response =
                    use_case.answer(&request(&use_case, &mut client, keyword), Some(&key)).unwrap();
                let found = client.value(use_case.shards()[0].shape(), keyword, &response);
                let expected = rows.iter().find(|(key, _)| key == keyword).map(|(_, value)| value.clone());
                assert_eq!(found, expected, "{} with {compression:?}", set.name());
            }
        }
    }
}

#[test]
fn sizes_are_those_of_messages_but_for_their_framing() {
    for set in Set::ALL {
        let use_case = use_case(set, Compression::None, &rows(60, 300));
        let shape = use_case.shards()[0].shape();
        let mut client = Client::new(7);
        let message = client.evaluation_key(use_case.key_config());
        let key = EvaluationKey::parse(use_case.key_config(), &message).unwrap();
        let request = request(&use_case, &mut client, b"absent");
        let query = request.query.as_ref().unwrap().encoded_len();
        let response = use_case.answer(&request, Some(&key)).unwrap().encoded_len();
        let sizes = Sizes::of(shape, Compression::None);
        let bytes = [sizes.query_bytes, sizes.response_bytes, sizes.key_bytes];
        for (actual, bytes) in [query, response, message.encoded_len()].into_iter().zip(bytes) {
            assert!((bytes..bytes + bytes / 100).contains(&actual), "{}: {actual}, {bytes}", set.name());
        }
        assert!(response <= use_case.response_bytes());
    }
}

#[test]
fn one_dimension_takes_no_product_of_ciphertexts() {
    let (set, rows) = (Set::Logt5, rows(30, 700));
    for (number, dimensions) in [(1, &[30][..]), (2, &[1, 40]), (3, &[100, 1])] {
        let tables = tables(set, number.min(2), &rows);
        let shape = tables.shape(set).unwrap();
        let needed = shape.used_plaintexts();
        let dimensions: Vec<usize> =
            dimensions.iter().map(|&d| if d > 1 { d.max(needed) } else { d }).collect();
        let shape = shape.with_dimensions(&dimensions).unwrap();
        let database = Database::new(arithmetic(), shape.clone(), &tables).unwrap();
        let mut client = Client::new(number as u64);
        let config = KeyConfig::new(set, [&shape], Compression::None);
        let key = EvaluationKey::parse(&config, &client.evaluation_key(&config)).unwrap();
        let (keyword, value) = &rows[7];
        let query = Query::parse(&shape, &client.query(&shape, keyword)).unwrap();
        let response = database.answer(&[(&query, &key)]).unwrap()[0].message();
        assert_eq!(client.value(&shape, keyword, &response).as_ref(), Some(value), "{dimensions:?}");
    }
}

#[test]
fn a_pass_for_several_clients_gives_the_responses_of_single_passes() {
    let rows = rows(80, 500);
    let use_case = use_case(Set::Logt5, Compression::None, &rows);
    let database = &use_case.shards()[0];
    let asked: Vec<(Query, EvaluationKey)> = (0..3)
        .map(|i| {
            let mut client = Client::new(100 + i);
            let query = client.query(database.shape(), &rows[20 * i as usize].0);
            (Query::parse(database.shape(), &query).unwrap(), parsed_key(&use_case, &mut client))
        })
        .collect();
    let together =
        database.answer(&asked.iter().map(|(query, key)| (query, key)).collect::<Vec<_>>()).unwrap();
    let singly = asked.iter().map(|(query, key)| database.answer(&[(query, key)]).unwrap().remove(0));
    assert!(singly.eq(together));
    assert!(database.answer(&[]).unwrap().is_empty());
}

#[test]
fn a_key_for_shorter_queries_is_refused() {
    let rows = rows(80, 500);
    let use_case = use_case(Set::Logt5, Compression::None, &rows);
    let database = &use_case.shards()[0];
    // One table of two plaintexts: two leaves, and a single Galois element.
    let shorter = Shape::new(Set::Logt5, 1, 2, 2048).unwrap().with_dimensions(&[2]).unwrap();
    let config = KeyConfig::new(Set::Logt5, [&shorter], Compression::None);
    assert_eq!(config.galois_elements(), [4097]);
    let mut client = Client::new(8);
    let key = EvaluationKey::parse(&config, &client.evaluation_key(&config)).unwrap();
    let query = Query::parse(database.shape(), &client.query(database.shape(), b"absent")).unwrap();
    let error = database.answer(&[(&query, &key)]).err().unwrap().to_string();
    assert!(error.contains("no Galois element up to 2^11 + 1"), "{error}");
}

#[test]
fn requests_are_refused_for_their_stated_reasons() {
    let rows = rows(10, 20);
    let use_case = use_case(Set::Logt5, Compression::Max, &rows);
    let mut client = Client::new(5);
    let key = parsed_key(&use_case, &mut client);
    let good = request(&use_case, &mut client, b"absent");
    let error = |request: PirRequest| use_case.answer(&request, Some(&key)).unwrap_err();

    let with_name = PirRequest { shard_id: Some("a".into()), ..good.clone() };
    assert!(matches!(error(with_name), AppleError::Unsupported(_)));
    let other_shard = PirRequest { shard_index: 1, ..good.clone() };
    assert_eq!(error(other_shard), AppleError::UnknownShard { index: 1, shards: 1 });
    let other_version = PirRequest { configuration_hash: Bytes::from_static(b"old"), ..good.clone() };
    assert_eq!(error(other_version), AppleError::UnknownConfiguration);
    let without_query = PirRequest { query: None, ..good.clone() };
    assert!(matches!(error(without_query), AppleError::Malformed { .. }));
    let mut of_other_key = good.clone();
    of_other_key.evaluation_key_metadata.as_mut().unwrap().identifier = Bytes::from_static(b"old");
    assert_eq!(error(of_other_key), AppleError::UnknownEvaluationKey);
    assert_eq!(use_case.answer(&good, None).unwrap_err(), AppleError::UnknownEvaluationKey);

    // A key in the request itself needs no stored one.
    let own = client.evaluation_key(use_case.key_config());
    let own = Some(UploadedKey { metadata: None, evaluation_key: Some(own) });
    assert!(use_case.answer(&PirRequest { evaluation_key: own, ..good }, None).is_ok());
}

/// A use case, and the bytes of a request to this use case with an evaluation key.
static WHOLE_REQUEST: LazyLock<(UseCase<CpuBackend>, Vec<u8>)> = LazyLock::new(|| {
    let use_case = use_case(Set::Logt5, Compression::Max, &rows(10, 20));
    let mut client = Client::new(9);
    let key = client.evaluation_key(use_case.key_config());
    let evaluation_key = Some(UploadedKey { metadata: None, evaluation_key: Some(key) });
    let request = PirRequest { evaluation_key, ..request(&use_case, &mut client, b"absent") };
    (use_case, request.encode_to_vec())
});

/// Returns places at which damage meets structure: near the ends, or anywhere.
fn place(length: usize) -> impl Strategy<Value = usize> {
    prop_oneof![0..100usize, (1..200usize).prop_map(move |i| length - i), 0..length]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_requests_have_a_response_or_an_error(
        damage in proptest::collection::vec((place(WHOLE_REQUEST.1.len()), any::<u8>()), 0..4),
        kept in prop_oneof![3 => Just(WHOLE_REQUEST.1.len()), 1 => place(WHOLE_REQUEST.1.len())],
    ) {
        let (use_case, whole) = &*WHOLE_REQUEST;
        let mut bytes = whole.clone();
        damage.iter().for_each(|&(place, byte)| bytes[place] = byte);
        bytes.truncate(kept);
        let untouched = bytes == *whole;
        let answer = PirRequest::from_bytes(bytes.into()).and_then(|request| use_case.answer(&request, None));
        prop_assert!(answer.is_ok() || !untouched);
        if let Ok(response) = answer {
            prop_assert_eq!(response.replies.len(), 2);
        }
    }
}

#[test]
fn malformed_queries_are_refused() {
    let rows = rows(10, 20);
    let use_case = use_case(Set::Logt5, Compression::None, &rows);
    let shape = use_case.shards()[0].shape();
    let good = Client::new(6).query(shape, b"absent");
    let refused = |change: &dyn Fn(&mut crate::messages::EncryptedIndices)| {
        let mut query = good.clone();
        change(&mut query);
        Query::parse(shape, &query).unwrap_err().to_string()
    };
    assert!(refused(&|query| query.num_pir_calls = 1).contains("1 ciphertexts for 1 tables, not 1 for 2"));
    assert!(refused(&|query| query.ciphertexts.clear()).contains("0 ciphertexts"));
    assert!(refused(&|query| query.ciphertexts[0].form = None).contains("has no seed"));
    let seeded = |query: &mut crate::messages::EncryptedIndices, seed: &'static [u8], poly0: Bytes| {
        let Some(Ciphertext::Seeded(ciphertext)) = &mut query.ciphertexts[0].form else { unreachable!() };
        (ciphertext.seed, ciphertext.poly0) = (Bytes::from_static(seed), poly0);
    };
    let polynomial = || Bytes::from(vec![0; 28_160]);
    assert!(refused(&|query| seeded(query, &[0; 31], polynomial())).contains("a seed has 32 bytes, not 31"));
    assert!(refused(&|query| seeded(query, &[0; 32], Bytes::new())).contains("28160 bytes, not 0"));
    let large = Bytes::from(vec![255; 28_160]);
    assert!(refused(&|query| seeded(query, &[0; 32], large.clone())).contains("not below its prime"));
}

#[test]
fn malformed_evaluation_keys_are_refused() {
    let use_case = use_case(Set::Logt5, Compression::None, &rows(10, 20));
    let config = use_case.key_config();
    let good = Client::new(7).evaluation_key(config);
    let refused = |change: &dyn Fn(&mut SerializedEvaluationKey)| {
        let mut key = good.clone();
        change(&mut key);
        EvaluationKey::parse(config, &key).unwrap_err().to_string()
    };
    assert!(refused(&|key| key.galois_key = None).contains("the Galois elements are not"));
    assert!(refused(&|key| key.relin_key = None).contains("no relinearisation key"));
    assert!(
        refused(&|key| {
            let keys = &mut key.galois_key.as_mut().unwrap().key_switch_keys;
            let first = keys.pop_first().unwrap().1;
            keys.insert(3, first);
        })
        .contains("the Galois elements are not")
    );
    assert!(
        refused(&|key| {
            let keys = &mut key.galois_key.as_mut().unwrap().key_switch_keys;
            keys.first_entry().unwrap().get_mut().key_switch_key = None;
        })
        .contains("2 ciphertexts, not 0")
    );

    // The upload of a key is read back.
    let metadata = Some(EvaluationKeyMetadata { timestamp: 5, identifier: config.hash() });
    let upload = EvaluationKeys { keys: vec![UploadedKey { metadata, evaluation_key: Some(good) }] };
    assert_eq!(EvaluationKeys::from_bytes(upload.encode_to_vec().into()), Ok(upload));
}

#[test]
fn use_cases_of_unequal_shards_are_refused() {
    let rows = rows(10, 20);
    let database = |set, number| {
        let tables = tables(set, number, &rows);
        Database::new(arithmetic(), tables.shape(set).unwrap(), &tables).unwrap()
    };
    let refused = |shards, sharding| UseCase::new(shards, sharding, Compression::None).is_err();
    let sha256 = Sharding::Sha256(crate::messages::Sha256 {});
    assert!(refused(vec![], sha256));
    assert!(refused(vec![database(Set::Logt5, 1), database(Set::Logt5, 2)], sha256));
    assert!(refused(vec![database(Set::Logt5, 2), database(Set::Logt4, 2)], sha256));
    let by_nothing = Sharding::DoubleMod(DoubleMod { other_shard_count: 0 });
    assert!(refused(vec![database(Set::Logt5, 2)], by_nothing));

    let other = tables(Set::Logt5, 2, &rows);
    let shape = other.shape_of(Set::Logt5, 2000).unwrap();
    assert!(other.shape_of(Set::Logt5, 20).is_err());
    let one_table = tables(Set::Logt5, 1, &rows);
    assert!(matches!(Database::new(arithmetic(), shape, &one_table).unwrap_err(), AppleError::Table(_)));
}
