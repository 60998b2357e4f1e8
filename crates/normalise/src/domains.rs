//! A domain and its parents, which a list may name in its place.

use spirea_protocols::table::{KeyForm, KeyStep};

use crate::normalised;

/// The names that are asked for in the place of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The name itself, then its parents from the longest to the shortest. The rest of the look-ups are dummies.
    pub names: Vec<String>,
    /// Parents that were left out, from the longest to the shortest: the name has too many labels.
    pub unasked: Vec<String>,
}

/// Returns the names to ask for with `count` look-ups: the name itself and its shortest parents, down to its last label.
/// A name that is none has no parents.
///
/// # Panics
/// If `count` is 0.
pub fn names_of(name: &str, count: usize) -> Asked {
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

#[cfg(test)]
mod tests {
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
