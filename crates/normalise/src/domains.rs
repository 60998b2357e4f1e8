//! Look-ups of a domain together with its parents: a list may contain a parent instead of the
//! domain.

use spirea_math::random::{NoEntropy, SecretRng};
use spirea_protocols::table::{KeyForm, KeyStep};
use zeroize::Zeroizing;

use crate::normalised;

/// Names that are asked for in place of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The domain itself, then its parents from the longest to the shortest. The remaining look-ups
    /// are dummies.
    pub names: Vec<String>,
    /// Parents that are left out because the domain has too many labels, from the longest to the
    /// shortest.
    pub unasked: Vec<String>,
}

/// Returns the names to ask for with `count` look-ups: the name itself and its shortest parents,
/// down to its last label. A text that is not a domain name has no parents.
///
/// # Panics
/// If `count` is 0.
fn names_of(name: &str, count: usize) -> Asked {
    assert!(count > 0, "a name takes a look-up");
    let domain = KeyForm { steps: vec![KeyStep::Domain], region: None, unicode: None, phone_rules: None };
    let Some(name) =
        normalised(&domain, name.as_bytes()).ok().and_then(|name| String::from_utf8(name.to_vec()).ok())
    else {
        return Asked { names: vec![name.to_owned()], unasked: Vec::new() };
    };
    let dots = name.match_indices('.');
    let mut parents: Vec<String> = dots.map(|(dot, _)| name[dot + 1..].to_owned()).collect();
    let shortest = parents.split_off(parents.len().saturating_sub(count - 1));
    let names = [name].into_iter().chain(shortest).collect();
    Asked { names, unasked: parents }
}

/// Length of the random part of a dummy's name, in bytes.
const DUMMY_BYTES: usize = 16;

/// Keys to look up for domains, the same number for each domain: the domain itself, its shortest
/// parents, and dummies that no table contains.
///
/// Duplicates are kept. Hence servers learn the number of domains, and nothing about their labels.
pub struct DomainKeys {
    names: Vec<Asked>,
    keys: Vec<Zeroizing<Vec<u8>>>,
}

impl DomainKeys {
    /// Makes the keys for these domains, `count` for each.
    ///
    /// # Errors
    /// [`NoEntropy`] if the system gives no randomness for dummies.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn new(domains: &[&str], count: usize) -> Result<Self, NoEntropy> {
        let mut rng = SecretRng::from_os()?;
        let names: Vec<Asked> = domains.iter().map(|domain| names_of(domain, count)).collect();
        let mut keys = Vec::with_capacity(domains.len() * count);
        for Asked { names, .. } in &names {
            keys.extend(names.iter().map(|name| Zeroizing::new(name.clone().into_bytes())));
            // The number of draws is the same for every name, so that their time reveals nothing
            // about the name.
            let dummies: Vec<_> = (0..count).map(|_| dummy(&mut rng)).collect();
            keys.extend(dummies.into_iter().skip(names.len()));
        }
        Ok(Self { names, keys })
    }

    /// All keys, in the order of the domains, with the same number of keys for each domain.
    pub fn keys(&self) -> &[Zeroizing<Vec<u8>>] {
        &self.keys
    }

    /// Names of each domain: the names asked for, whose keys precede the dummies, and the names
    /// left out.
    pub fn names(&self) -> &[Asked] {
        &self.names
    }
}

/// Makes a name below `.invalid`, a top-level domain that RFC 2606 keeps empty.
fn dummy(rng: &mut SecretRng) -> Zeroizing<Vec<u8>> {
    let mut bytes = [0; DUMMY_BYTES];
    rng.fill(&mut bytes);
    Zeroizing::new(format!("{}.invalid", hex::encode(bytes)).into_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn asked(name: &str, count: usize) -> (String, String) {
        let Asked { names, unasked } = names_of(name, count);
        (names.join(" "), unasked.join(" "))
    }

    #[test]
    fn a_name_is_asked_for_with_its_shortest_parents() {
        let cases = [
            ("Ads.Example.COM.", 4, "ads.example.com example.com com", ""),
            ("a.b.c.example.com", 4, "a.b.c.example.com c.example.com example.com com", "b.c.example.com"),
            ("a.b.example.com", 1, "a.b.example.com", "b.example.com example.com com"),
            ("a.b.example.com", 2, "a.b.example.com com", "b.example.com example.com"),
            ("com", 4, "com", ""),
            ("bücher.example", 2, "xn--bcher-kva.example example", ""),
            ("no name", 4, "no name", ""),
        ];
        for (name, count, names, unasked) in cases {
            assert_eq!(asked(name, count), (names.to_owned(), unasked.to_owned()), "{name}");
        }
    }

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

    proptest! {
        #[test]
        fn all_parents_are_asked_for_or_named(labels in 1usize..12, count in 1usize..8) {
            let name = (0..labels).map(|i| format!("l{i}")).collect::<Vec<_>>().join(".");
            let Asked { names, unasked } = names_of(&name, count);
            prop_assert!(names.len() <= count && names[0] == name);
            prop_assert_eq!(names.len() + unasked.len(), labels);
            prop_assert_eq!(unasked.is_empty(), labels <= count);
        }
    }
}
