use bytes::Bytes;
use spirea_client::Description;
use spirea_protocols::registry::{Choice, ProtocolParams, Seed};
use spirea_protocols::signature::PrivateKey;
use spirea_protocols::{Sizes, TableKind, Version};
use spirea_wire::{Config, Lengths, PartConfig};

use super::*;

/// Makes a part whose hint repeats `filling` and is longer than two pieces.
fn part(filling: u8) -> (PartDescription, Vec<u8>) {
    let table = spirea_specimens::table(TableKind::Index, 32_000, 1016);
    let params = ProtocolParams::choose(&Choice::default(), Seed::default(), 32_000, 1024).unwrap();
    let Sizes { query_bytes, answer_bytes, hint_bytes, keys_bytes } = params.sizes;
    let hint = vec![filling; hint_bytes as usize];
    let base = PartConfig {
        protocol_params: params.to_json().into(),
        table: serde_json::to_vec(&table).unwrap().into(),
        hint_bytes,
        hint_blake3: blake3::hash(&hint).into(),
        lengths: Lengths { query_bytes, answer_bytes, keys_bytes },
        manifest: Bytes::new(),
    };
    let config = Config {
        name: "test".into(),
        version: Version::new([1; 32]),
        base,
        delta: None,
        max_batch: 1,
        party: None,
        versions: vec![Version::new([1; 32])],
        signature: Bytes::new(),
        request_bytes: 0,
    };
    let description = Description::parse("test", config.encode().into()).unwrap();
    (description.base().clone(), hint)
}

/// Stored data, as JavaScript stores it: pieces by hint, and the other changes.
#[derive(Default)]
struct Stored {
    hints: HashMap<FileHash, Vec<Vec<u8>>>,
    said: Vec<Change>,
}

impl Stored {
    fn take(&mut self, cache: &StoredHints) {
        while let Some(change) = cache.take_change() {
            match change {
                Change::Piece { hint, index, bytes } => {
                    let pieces = self.hints.entry(hint).or_default();
                    pieces.truncate(index);
                    assert_eq!(pieces.len(), index, "pieces come in order");
                    pieces.push(bytes);
                }
                Change::Drop { hint } => drop(self.hints.remove(&hint)),
                said => self.said.push(said),
            }
        }
    }

    fn bytes(&self, part: &PartDescription) -> Vec<u8> {
        self.hints.get(part.hint_blake3()).map(|pieces| pieces.concat()).unwrap_or_default()
    }
}

#[test]
fn a_download_is_stored_by_pieces_and_goes_on_where_it_ended() {
    let ((part, hint), mut stored) = (part(7), Stored::default());
    assert!(hint.len() > 2 * PIECE_BYTES && !hint.len().is_multiple_of(PIECE_BYTES));
    let mut cache = StoredHints::default();
    assert!(cache.load(&part).unwrap().is_none());
    let mut download = cache.begin(&part).unwrap();
    for piece in hint[..2 * PIECE_BYTES + 5].chunks(99_991) {
        download.push(piece).unwrap();
        stored.take(&cache);
    }
    // The last five bytes are lost with the page.
    drop((download, cache));
    assert_eq!(stored.bytes(&part).len(), 2 * PIECE_BYTES);

    let mut cache = StoredHints::default();
    cache.give_hint(*part.hint_blake3(), stored.bytes(&part));
    let mut download = cache.begin(&part).unwrap();
    assert_eq!(download.bytes(), 2 * PIECE_BYTES as u64);
    download.push(&hint[2 * PIECE_BYTES..]).unwrap();
    download.finish(&part).unwrap();
    cache.succeed("test-base", &part).unwrap();
    stored.take(&cache);
    assert_eq!(stored.bytes(&part), hint);
    let (slot, hash) = ("test-base".to_owned(), *part.hint_blake3());
    assert_eq!(stored.said, [Change::Latest { slot, hint: hash }]);

    let mut cache = StoredHints::default();
    cache.give_hint(*part.hint_blake3(), stored.bytes(&part));
    cache.give_latest("test-base".into(), *part.hint_blake3());
    assert!(cache.load(&part).unwrap().is_some());
    cache.succeed("test-base", &part).unwrap();
    assert!(cache.take_change().is_none());
    assert_eq!(cache.former("test-base", &part), Some(hint));
    cache.forget_bytes();
    assert!(cache.former("test-base", &part).is_none());
}

#[test]
fn what_is_damaged_is_thrown_away_and_downloaded_again() {
    let ((part, hint), mut stored) = (part(7), Stored::default());
    let mut cache = StoredHints::default();
    let mut damaged = hint.clone();
    damaged[PIECE_BYTES + 1] ^= 1;
    for wrong in [damaged.clone(), [&hint[..], &[0]].concat()] {
        cache.give_hint(*part.hint_blake3(), wrong);
        assert!(cache.load(&part).unwrap().is_none());
        let hint = *part.hint_blake3();
        assert_eq!(cache.take_change(), Some(Change::Drop { hint }));
    }
    // A download is stored before it is checked, and deleted again if it is damaged.
    let mut download = cache.begin(&part).unwrap();
    download.push(&damaged).unwrap();
    assert!(matches!(download.finish(&part), Err(ClientError::HintCorrupted)));
    assert_eq!(download.bytes(), 0);
    stored.take(&cache);
    assert!(stored.hints.is_empty());
    download.push(&hint).unwrap();
    download.finish(&part).unwrap();
    stored.take(&cache);
    assert_eq!(stored.bytes(&part), hint);
    // If the server does not continue from the stored beginning, the beginning is cut.
    let mut download = StoredHints::default().begin(&part).unwrap();
    download.push(&hint[..10]).unwrap();
    download.cut(3).unwrap();
    assert_eq!(download.bytes(), 3);
}

#[test]
fn sequence_numbers_are_stored_as_they_grow() {
    let mut cache = StoredHints::default();
    let key = PrivateKey::from_bytes(&[9; 32]).public();
    assert_eq!(cache.seen("test", &key), 0);
    for (sequence, changes) in [(4, 1), (3, 0), (4, 0), (9, 1)] {
        cache.saw("test", &Pin { key, sequence }).unwrap();
        assert_eq!(std::iter::from_fn(|| cache.take_change()).count(), changes, "{sequence}");
    }
    let mut other = StoredHints::default();
    other.give_seen(pin_name("test", &key), 9);
    assert_eq!(other.seen("test", &key), 9);
    assert_eq!(other.seen("other", &key), 0);
    other.saw("test", &Pin { key, sequence: 8 }).unwrap();
    assert!(other.take_change().is_none());
}
