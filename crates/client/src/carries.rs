//! Requests that carry evaluation keys although no server has asked for them.

/// Maximum number of requests in a row that carry keys after a refusal.
const MOST: u32 = 32;

/// Number of requests that carry the client's keys because an earlier request met a server that did
/// not know them.
///
/// With a round-robin balancer, one replica could forever get the requests without keys and refuse
/// them, while another replica gets their repetitions with keys. So after a refusal some further
/// requests also carry keys; after each further refusal, twice as many do. Among n replicas a
/// client sends its keys about 2n times. Only refusals affect this, never an answer.
#[derive(Debug)]
pub(crate) struct Carries {
    /// Number of requests that still carry keys, from the next one on.
    left: u32,
    /// Number of requests that carry keys after the next refusal.
    next: u32,
}

impl Default for Carries {
    fn default() -> Self {
        Self { left: 0, next: 1 }
    }
}

impl Carries {
    /// Returns true if the next request carries keys, and counts it.
    pub fn begin(&mut self) -> bool {
        let carries = self.left > 0;
        self.left = self.left.saturating_sub(1);
        carries
    }

    /// Notes that a server did not know the keys.
    pub fn refused(&mut self) {
        self.left = self.next;
        self.next = (2 * self.next).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replica_of_a_round_learns_the_keys_soon() {
        for replicas in [1, 2, 3, 4, 5, 8, 16] {
            let (mut carries, mut known, mut asked, mut sent) =
                (Carries::default(), vec![false; replicas], 0, 0);
            let mut next = |known: &mut Vec<bool>, with_keys: bool| {
                asked += 1;
                known[asked % replicas] |= with_keys;
                known[asked % replicas]
            };
            next(&mut known, true);
            for request in 0..200 {
                let with_keys = carries.begin();
                if !next(&mut known, with_keys) {
                    carries.refused();
                    next(&mut known, true);
                    sent += 1;
                }
                sent += usize::from(with_keys);
                assert!(request < 4 * replicas || known.iter().all(|known| *known), "{replicas} replicas");
            }
            assert!(sent <= 3 * replicas, "{sent} times for {replicas} replicas");
        }
    }

    #[test]
    fn refusals_without_an_end_are_bounded() {
        let mut carries = Carries::default();
        for _ in 0..100 {
            carries.refused();
        }
        assert_eq!((0..1000).filter(|_| carries.begin()).count(), MOST as usize);
    }
}
