//! Tests of the claims' files, and of their tables in the documents.

use spirea_papers::check::{kinds, with_values};
use spirea_papers::documents::{DOCUMENTS, hold, root, with_tables};
use spirea_papers::{ALL, Claim, Paper};

/// Returns the value in the cell that a claim names.
fn recorded(claim: &Claim) -> Option<f64> {
    let recorded = claim.recorded.as_ref()?;
    let text = std::fs::read_to_string(root().join(&recorded.file)).unwrap();
    let mut rows = text.lines().filter(|line| line.starts_with(&recorded.row));
    let (row, other) = (rows.next(), rows.next());
    assert!(other.is_none(), "{}: {:?} begins two rows", recorded.file, recorded.row);
    let cell = row.and_then(|row| row.split('|').nth(recorded.column + 1));
    let cell = cell.unwrap_or_else(|| panic!("{}: no cell for {recorded:?}", recorded.file));
    let number: String = cell.chars().filter(|it| it.is_ascii_digit() || *it == '.').collect();
    Some(number.parse().unwrap())
}

#[test]
fn recorded_values_are_those_of_the_documents() {
    for (name, text) in ALL {
        let with_recorded =
            |claim: &Claim| Claim { ours: recorded(claim).unwrap_or(claim.ours), ..claim.clone() };
        let claims: Vec<Claim> = Paper::read(text).claims.iter().map(with_recorded).collect();
        assert_eq!(kinds(&claims), [""; 0], "{name}");
        let of_documents: Vec<Claim> = claims.into_iter().filter(|claim| claim.recorded.is_some()).collect();
        hold(&format!("papers/{name}.toml"), &with_values(text, &of_documents)).unwrap();
    }
}

#[test]
fn documents_have_the_tables_of_the_files() {
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        hold(document, &with_tables(&text).unwrap()).unwrap();
    }
}

#[test]
fn unknown_tables_and_open_marks_are_refused() {
    for text in [
        "<!-- papers: counts -->\n",
        "<!-- papers: ive sums -->\n<!-- end -->",
        "<!-- papers: x -->\n<!-- end -->",
    ] {
        assert!(with_tables(text).is_err(), "{text}");
    }
}
