//! Evaluation keys that arrive in pieces, so that each request passes proxies with small limits.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spirea_engine::{EngineError, KeyOwner};
use spirea_protocols::KeysHash;
use spirea_wire::{KeysPiece, Part};

/// Maximum bytes of all incomplete keys. Above this limit, the oldest keys of the client with the
/// most bytes are dropped; that client then sends its keys with a query.
const ROOM: usize = 64 << 20;
/// Maximum number of incomplete keys, in total and of one client.
const MOST: usize = 256;
const MOST_OF_OWNER: usize = 16;
/// Time after which incomplete keys are dropped.
const PATIENCE: Duration = Duration::from_secs(120);

/// Keys whose last pieces have not come.
#[derive(Default)]
pub(crate) struct Pieces(Mutex<VecDeque<Pending>>);

/// Name of incomplete keys. It includes the client, so no client disturbs the pieces of another.
#[derive(Clone, PartialEq, Eq)]
struct Name {
    database: String,
    of_delta: bool,
    whole: KeysHash,
    owner: Option<KeyOwner>,
}

struct Pending {
    name: Name,
    /// Bytes that have come.
    bytes: Vec<u8>,
    /// Length of the whole keys.
    length: usize,
    since: Instant,
}

impl Pieces {
    /// Adds a piece of keys of `length` bytes. Returns the keys if the piece is the last one.
    ///
    /// # Errors
    /// [`EngineError::UnknownKeys`] if this server does not have the earlier pieces; another
    /// replica may have them.
    pub fn add(
        &self,
        database: &str,
        piece: &KeysPiece,
        length: usize,
        owner: Option<KeyOwner>,
        now: Instant,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let of_delta = piece.part == Part::Delta;
        let name = Name { database: database.into(), of_delta, whole: piece.whole, owner };
        let mut pending = self.0.lock();
        pending.retain(|keys| now.saturating_duration_since(keys.since) < PATIENCE);
        let found = pending.iter().position(|keys| keys.name == name && keys.length == length);
        let mut keys = match found.and_then(|at| pending.remove(at)) {
            // A client sends a piece again if the response to it was lost.
            Some(keys)
                if keys.bytes[..].ends_with(&piece.bytes)
                    && keys.bytes.len() == piece.start + piece.bytes.len() =>
            {
                pending.push_back(keys);
                return Ok(None);
            }
            Some(keys) if keys.bytes.len() == piece.start => keys,
            _ if piece.start == 0 => Pending { name, bytes: Vec::new(), length, since: now },
            _ => return Err(EngineError::UnknownKeys),
        };
        keys.bytes.extend_from_slice(&piece.bytes);
        if keys.bytes.len() == length {
            return Ok(Some(keys.bytes));
        }
        pending.push_back(keys);
        let own =
            |pending: &VecDeque<Pending>| pending.iter().filter(|keys| keys.name.owner == owner).count();
        if own(&pending) > MOST_OF_OWNER
            && let Some(oldest) = pending.iter().position(|keys| keys.name.owner == owner)
        {
            pending.remove(oldest);
        }
        while (pending.len() > MOST || pending.iter().map(|keys| keys.bytes.len()).sum::<usize>() > ROOM)
            && let Some(oldest) = oldest_of_greediest(&pending)
        {
            pending.remove(oldest);
        }
        Ok(None)
    }
}

/// Returns the place of the oldest keys of the client whose incomplete keys have the most bytes.
fn oldest_of_greediest(pending: &VecDeque<Pending>) -> Option<usize> {
    let mut bytes: HashMap<Option<KeyOwner>, usize> = HashMap::new();
    pending.iter().for_each(|keys| *bytes.entry(keys.name.owner).or_default() += keys.bytes.len());
    let (greediest, _) = bytes.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    pending.iter().position(|keys| keys.name.owner == greediest)
}

#[cfg(test)]
mod tests {
    use spirea_protocols::Version;

    use super::*;

    fn piece(whole: u8, start: usize, bytes: &[u8]) -> KeysPiece {
        let bytes = bytes.to_vec().into();
        KeysPiece {
            version: Version::new([1; 32]),
            part: Part::Base,
            whole: KeysHash::new([whole; 32]),
            start,
            bytes,
        }
    }

    #[test]
    fn pieces_in_order_become_keys() {
        let (pieces, now) = (Pieces::default(), Instant::now());
        let add = |piece: &KeysPiece, owner| pieces.add("t", piece, 5, owner, now);
        assert_eq!(add(&piece(1, 0, &[1, 2]), None).unwrap(), None);
        // A piece that comes twice changes nothing.
        assert_eq!(add(&piece(1, 0, &[1, 2]), None).unwrap(), None);
        assert_eq!(add(&piece(1, 2, &[3, 4]), None).unwrap(), None);
        assert_eq!(add(&piece(1, 4, &[5]), None).unwrap(), Some(vec![1, 2, 3, 4, 5]));
        assert!(matches!(add(&piece(1, 4, &[5]), None), Err(EngineError::UnknownKeys)));

        // Another replica, database, client or name does not have the earlier pieces.
        add(&piece(2, 0, &[1]), None).unwrap();
        let other = KeyOwner::new(b"other");
        assert!(matches!(add(&piece(2, 1, &[2]), Some(other)), Err(EngineError::UnknownKeys)));
        assert!(matches!(add(&piece(3, 1, &[2]), None), Err(EngineError::UnknownKeys)));
        assert!(pieces.add("u", &piece(2, 1, &[2]), 5, None, now).is_err());
        let of_delta = KeysPiece { part: Part::Delta, ..piece(2, 1, &[2]) };
        assert!(add(&of_delta, None).is_err());
        // A gap ends an upload; it begins anew with its first piece.
        assert!(add(&piece(2, 3, &[2]), None).is_err());
        assert!(add(&piece(2, 1, &[2]), None).is_err());
        assert_eq!(add(&piece(2, 0, &[9; 5]), None).unwrap(), Some(vec![9; 5]));
    }

    #[test]
    fn a_client_with_many_bytes_displaces_no_other() {
        let (pieces, now) = (Pieces::default(), Instant::now());
        let [small, greedy] = [b"small", b"greed"].map(|name| Some(KeyOwner::new(name)));
        pieces.add("t", &piece(1, 0, &[1]), ROOM, small, now).unwrap();
        let part = vec![0; ROOM / MOST_OF_OWNER + 1];
        for whole in 0..2 * MOST_OF_OWNER as u8 {
            pieces.add("t", &piece(whole, 0, &part), ROOM, greedy, now).unwrap();
        }
        assert_eq!(pieces.add("t", &piece(1, 1, &[1]), ROOM, small, now).unwrap(), None);
    }

    #[test]
    fn incomplete_keys_have_bounds_in_bytes_and_time() {
        let (pieces, now) = (Pieces::default(), Instant::now());
        let half = vec![0; ROOM / 2];
        for whole in 1..=3 {
            pieces.add("t", &piece(whole, 0, &half), ROOM, None, now).unwrap();
        }
        assert!(pieces.add("t", &piece(1, half.len(), &[1]), ROOM, None, now).is_err(), "the oldest left");
        assert_eq!(pieces.add("t", &piece(3, half.len(), &[1]), ROOM, None, now).unwrap(), None);
        // A client with many incomplete keys displaces only its own keys.
        let other = Some(KeyOwner::new(b"other"));
        for whole in 0..=MOST_OF_OWNER as u8 {
            pieces.add("t", &piece(whole, 0, &[0]), ROOM, other, now).unwrap();
        }
        assert!(pieces.add("t", &piece(0, 1, &[1]), ROOM, other, now).is_err());
        assert_eq!(pieces.add("t", &piece(3, half.len() + 1, &[1]), ROOM, None, now).unwrap(), None);
        let later = now + PATIENCE;
        assert!(pieces.add("t", &piece(3, half.len() + 2, &[1]), ROOM, None, later).is_err());
        assert!(pieces.0.lock().is_empty());
    }
}
