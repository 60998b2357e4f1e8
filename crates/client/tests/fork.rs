//! Two processes that continue the same session send unrelated queries. Registered keys belong to
//! the process that made them: a child ends its copy before its first query.
//!
//! The same holds for two machines started from one image: each round draws from the system's
//! generator when it is made, and kernels reseed the generator of their clones.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;

use bytes::Bytes;
use spirea_client::{Description, Session};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::table::LEAST_KEY_QUERIES;
use spirea_protocols::{Sizes, Table, TableKind, Version};
use spirea_wire::{Config, KeysHash, Lengths, Limits, PartConfig, Queries, Request};

const VALUE_BYTES: usize = 23;
/// Number of records. It is so large that a query has hundreds of words.
const RECORDS: u64 = 100_000;
/// Bound of the noise. The bodies of two queries under one secret differ by the difference of their
/// plaintexts, and by noise of at most twice 30.
const NOISE: u32 = 1 << 8;
/// Rows looked up by parent and child.
const ROWS: [u64; 2] = [3, 98_765];

fn config(protocol: &str) -> Config {
    let table = spirea_specimens::table(TableKind::Index, RECORDS, 1 + VALUE_BYTES);
    let table = Table { key_queries: Some(LEAST_KEY_QUERIES), ..table };
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([0; 32]), RECORDS, table.record_bytes()).unwrap();
    let Sizes { query_bytes, answer_bytes, hint_bytes, keys_bytes } = params.sizes;
    let base = PartConfig {
        protocol_params: params.to_json().into(),
        table: serde_json::to_vec(&table).unwrap().into(),
        hint_bytes,
        hint_blake3: blake3::hash(&vec![0; hint_bytes as usize]).into(),
        lengths: Lengths { query_bytes, answer_bytes, keys_bytes },
        manifest: Bytes::new(),
    };
    Config {
        name: "test".into(),
        version: Version::new([1; 32]),
        base,
        delta: None,
        max_batch: 1,
        party: None,
        versions: vec![Version::new([1; 32])],
        signature: Bytes::new(),
        request_bytes: 0,
    }
}

/// Returns the only query of a request, and the keys that the request names.
fn queries(request: Vec<u8>, limits: &Limits) -> (Vec<u8>, Option<KeysHash>) {
    let Queries { keys, queries } = Request::decode(request.into(), limits).unwrap().base;
    (queries[0].to_vec(), keys)
}

/// Returns the number of words in which two queries differ by more than noise.
fn far_apart(queries: [&[u8]; 2]) -> usize {
    let [a, b] =
        queries.map(|query| query.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())));
    a.zip(b).filter(|(a, b)| a.wrapping_sub(*b).wrapping_add(NOISE) > 2 * NOISE).count()
}

/// Returns the results of `make` in this process and in a child that continues from its memory.
/// `make` receives the row to look up.
fn in_two_processes(make: impl FnOnce(u64) -> Vec<u8>) -> [Vec<u8>; 2] {
    let mut pipe = [0; 2];
    // SAFETY: the array has room for the two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: both descriptors are open, and nothing else owns them.
    let [mut reader, mut writer] = pipe.map(|end| unsafe { File::from_raw_fd(end) });
    // SAFETY: this process has a single thread, so no lock is held by a thread that the child
    // lacks.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    let made = make(ROWS[usize::from(child == 0)]);
    if child == 0 {
        writer.write_all(&made).unwrap();
        drop(writer);
        // SAFETY: the call ends the process.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    let mut of_child = Vec::new();
    reader.read_to_end(&mut of_child).unwrap();
    let mut status = 0;
    // SAFETY: the child belongs to this process, and `status` has room for the result.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    [made, of_child]
}

/// Returns the queries of `session` in this process and in a child, each with its keys' hash.
fn queries_in_two_processes(session: &mut Session) -> [(Vec<u8>, Option<KeysHash>); 2] {
    let limits = session.description().limits();
    let requests = in_two_processes(|row| session.query_indices(&[row]).unwrap().requests.remove(0));
    requests.map(|request| queries(request, &limits))
}

fn main() {
    two_unit_vectors_are_left_of_one_generator_and_nothing_of_the_system_s();
    registered_keys_stay_with_the_process_that_made_them();
    next_keys_stay_with_the_process_that_made_them();
    keys_without_a_session_end_in_a_child_as_well();
}

fn description(protocol: &str) -> Description {
    Description::parse("test", config(protocol).encode().into()).unwrap()
}

fn two_unit_vectors_are_left_of_one_generator_and_nothing_of_the_system_s() {
    let description = description("simple");
    let base = description.base();
    let hint = vec![0; base.hint_bytes() as usize];
    let client = base.params().client(&hint, &[], &mut SecretRng::from_os().unwrap()).unwrap();

    // Queries made from equal generators differ only in their two unit vectors.
    let [a, b] = ROWS.map(|row| {
        let copied = &mut SecretRng::deterministic_for_tests(1);
        client.query(row, copied).unwrap().queries.remove(0)
    });
    assert_eq!(far_apart([&a, &b]), 2);

    let hint = base.hint(hint).unwrap();
    let [(a, _), (b, _)] = queries_in_two_processes(&mut Session::new(description, &[hint]).unwrap());
    assert_eq!(a.len(), b.len());
    let words = a.len() / 4;
    assert!(words > 200, "{words}");
    // Two random words are this close with probability 2^-23.
    assert!(far_apart([&a, &b]) >= words - 1);
}

fn registered_keys_stay_with_the_process_that_made_them() {
    let description = description("exppack-simple");
    let no_hint = description.base().hint(Vec::new()).unwrap();
    let mut session = Session::new(description, &[no_hint]).unwrap();
    let before = session.keys().first().map(|keys| *keys.blake3());
    let [(_, of_parent), (_, of_child)] = queries_in_two_processes(&mut session);
    assert!(before.is_some() && of_parent == before, "the parent goes on with its keys");
    assert!(of_child.is_some() && of_child != before, "the child asks under the parent's keys");
}

fn next_keys_stay_with_the_process_that_made_them() {
    let description = description("exppack-simple");
    let no_hint = description.base().hint(Vec::new()).unwrap();
    let mut session = Session::new(description, &[no_hint]).unwrap();
    let present = session.keys().first().map(|keys| *keys.blake3());
    for _ in 0..LEAST_KEY_QUERIES {
        session.query_indices(&ROWS[..1]).unwrap();
    }
    let next = session.next_keys()().unwrap();
    let made = next.keys().next().map(|keys| *keys.blake3());
    session.go_on_with(next);
    let [(_, of_parent), (_, of_child)] = queries_in_two_processes(&mut session);
    assert!(made.is_some() && of_parent == made, "the parent goes on with the next keys");
    assert!(of_child.is_some() && of_child != made && of_child != present, "the child has neither");
}

fn keys_without_a_session_end_in_a_child_as_well() {
    let description = description("exppack-simple");
    let params = description.base().params();
    let client = params.client(&[], &[], &mut SecretRng::from_os().unwrap()).unwrap();
    let keys = client.keys().unwrap();
    assert!(keys.save().is_some());
    let ended = in_two_processes(|row| {
        client.query(row, &mut SecretRng::from_os().unwrap()).unwrap();
        vec![u8::from(keys.have_ended()), u8::from(keys.save().is_none())]
    });
    assert_eq!(ended, [[0, 0], [1, 1]], "the keys end in the child alone");
}
