//! Domains and their parents, asked for in one look-up.

use spirea_math::random::SecretRng;
use spirea_normalise::{Asked, names_of};
use zeroize::Zeroizing;

use crate::ClientError;

/// Bytes of randomness in the name of a dummy.
const DUMMY_BYTES: usize = 16;

/// Keys to look up for domains: for each as many, itself, its shortest parents, and dummies that no table has.
///
/// Nothing is left out that is asked for twice: servers learn how many domains there are, and nothing of their labels.
pub struct DomainKeys {
    names: Vec<Asked>,
    keys: Vec<Zeroizing<Vec<u8>>>,
}

impl DomainKeys {
    /// The keys for these domains, `count` for each.
    ///
    /// # Errors
    /// [`ClientError::NoEntropy`] if the system gives no randomness for dummies.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn new(domains: &[&str], count: usize) -> Result<Self, ClientError> {
        let mut rng = SecretRng::from_os()?;
        let names: Vec<Asked> = domains.iter().map(|domain| names_of(domain, count)).collect();
        let mut keys = Vec::with_capacity(domains.len() * count);
        for Asked { names, .. } in &names {
            keys.extend(names.iter().map(|name| Zeroizing::new(name.clone().into_bytes())));
            // As many are drawn whatever the name has, so that the time to draw them tells nothing of it.
            let dummies: Vec<_> = (0..count).map(|_| dummy(&mut rng)).collect();
            keys.extend(dummies.into_iter().skip(names.len()));
        }
        Ok(Self { names, keys })
    }

    /// All keys, in the order of the domains, as many for each.
    pub fn keys(&self) -> &[Zeroizing<Vec<u8>>] {
        &self.keys
    }

    /// For each domain, its names that are asked for, which come before its dummies, and those that are not.
    pub fn names(&self) -> &[Asked] {
        &self.names
    }
}

/// A name below a domain that RFC 2606 keeps free of names.
fn dummy(rng: &mut SecretRng) -> Zeroizing<Vec<u8>> {
    let mut bytes = [0; DUMMY_BYTES];
    rng.fill(&mut bytes);
    let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Zeroizing::new(format!("{digits}.invalid").into_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_domain_takes_as_many_look_ups() {
        let domains = ["ads.example.com", "com", "a.b.c.d.example.com", "no name", "com"];
        let keys = DomainKeys::new(&domains, 4).unwrap();
        assert_eq!((keys.keys().len(), keys.names().len()), (20, 5));
        let of =
            |domain: usize| keys.keys()[domain * 4..][..4].iter().map(|key| str::from_utf8(key).unwrap());
        assert!(of(0).take(3).eq(["ads.example.com", "example.com", "com"]));
        assert!(of(2).eq(["a.b.c.d.example.com", "d.example.com", "example.com", "com"]));
        assert_eq!(keys.names()[2].unasked, ["b.c.d.example.com", "c.d.example.com"]);
        let dummies: HashSet<&str> = (0..5).flat_map(of).filter(|name| name.ends_with(".invalid")).collect();
        assert_eq!(dummies.len(), 1 + 3 + 3 + 3, "each is drawn anew");
    }
}
