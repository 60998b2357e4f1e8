//! Groups of changes from a producer's stream of lines.

use std::fmt;
use std::path::PathBuf;

use spirea_protocols::Table;

use super::lines::{Entry, uncovered};
use super::read::checked;
use super::{After, Changes, Cursor, named};
use crate::ingest::MAX_LINE_BYTES;
use crate::{Location, StoreError};

/// Maximum bytes of keys and values that no cursor covers yet. They stay in memory until the next
/// cursor comes.
const MOST_OPEN_BYTES: usize = if cfg!(test) { 1 << 10 } else { 256 << 20 };

/// Collects the lines of a stream into groups. A group ends with a cursor, so that a producer that
/// resumes there neither loses nor repeats a change. In a group, a later change of a key replaces
/// an earlier one.
#[derive(Debug)]
pub struct Grouping {
    table: Table,
    /// Name of the input.
    name: PathBuf,
    /// Number of lines read from the input.
    lines: u64,
    /// Cursor before the changes that are ready.
    before: Option<Cursor>,
    /// Changes up to the newest cursor, with their number of bytes and first line.
    ready: Part,
    /// Changes after the newest cursor.
    open: Part,
}

/// Changes of successive lines.
#[derive(Debug, Default)]
struct Part {
    changes: Changes,
    /// Bytes of keys and values, those of replaced changes included.
    bytes: usize,
    /// Places of the first and of the last line.
    lines: Option<Lines>,
}

/// A group of changes.
#[derive(Debug)]
pub struct Group {
    /// The changes, with the cursors before and after them.
    pub changes: Changes,
    /// Lines of these changes.
    pub lines: Lines,
}

/// Successive lines, from one input or from several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Place of the first line.
    pub first: Location,
    /// Place of the last line.
    pub last: Location,
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.first, &self.last) {
            (first, last) if first == last => write!(f, "{first}"),
            (Location::Line(name, first), Location::Line(other, last)) if name == other => {
                write!(f, "{}, lines {first} to {last}", name.display())
            }
            (first, last) => write!(f, "{first} to {last}"),
        }
    }
}

impl Grouping {
    /// Maximum length of a line in bytes. The caller must not add longer ones.
    pub const MOST_LINE_BYTES: usize = MAX_LINE_BYTES;

    /// Begins to read changes of `table` that follow the cursor `before`; messages call the stream
    /// `name`.
    pub fn new(table: Table, before: Option<Cursor>, name: impl Into<PathBuf>) -> Self {
        Self { table, name: name.into(), lines: 0, before, ready: Part::default(), open: Part::default() }
    }

    /// Continues with another input, which messages call `name` and whose lines count from 1.
    pub fn next_input(&mut self, name: impl Into<PathBuf>) {
        (self.name, self.lines) = (name.into(), 0);
    }

    /// Number of lines read from the input.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Adds the next line. Returns true if it has a cursor.
    ///
    /// # Errors
    /// Those of [`Changes::read_lines`], with the line's number, except that a key may occur again.
    /// [`StoreError::Malformed`] also if the changes without a cursor exceed their limit, or if the
    /// cursor that the line follows is not the last one read.
    pub fn add(&mut self, line: &[u8]) -> Result<bool, StoreError> {
        self.lines += 1;
        let place = self.place();
        let Some(Entry { change, after, cursor }) = Entry::parse(&self.table, line, &place)? else {
            return Ok(false);
        };
        if let After::Exactly(after) = after
            && after.as_ref() != self.newest()
        {
            let [wanted, newest] = [after.as_ref(), self.newest()].map(named);
            let detail =
                format!("it follows {wanted}, and what came before ends with {newest}: resume there");
            return Err(StoreError::malformed(place, detail));
        }
        match &mut self.open.lines {
            Some(lines) => lines.last = place.clone(),
            none => *none = Some(Lines { first: place.clone(), last: place.clone() }),
        }
        if let Some((key, value)) = change {
            let key = checked(&self.table, &key, value.as_deref(), &place)?;
            self.open.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
            match value {
                Some(value) => self.open.changes.put(key, value),
                None => self.open.changes.delete(key),
            }
        }
        if let Some(cursor) = cursor {
            self.cover(cursor);
            return Ok(true);
        }
        if self.open.bytes > MOST_OPEN_BYTES {
            let most = MOST_OPEN_BYTES >> 10;
            let detail = format!(
                "more than {most} KiB of changes without a cursor: give more lines one, {{\"cursor\": CURSOR}}"
            );
            return Err(StoreError::malformed(place, detail));
        }
        Ok(false)
    }

    /// Sets the cursor that covers all lines added so far.
    pub fn cover(&mut self, cursor: Cursor) {
        let Part { changes, bytes, lines } = std::mem::take(&mut self.open);
        self.ready.changes.extend(changes);
        self.ready.changes.set_cursor(cursor);
        self.ready.bytes += bytes;
        self.ready.lines = match (self.ready.lines.take(), lines) {
            (Some(earlier), Some(later)) => Some(Lines { first: earlier.first, last: later.last }),
            (earlier, later) => earlier.or(later),
        };
    }

    /// Place of the last line that was read.
    fn place(&self) -> Location {
        Location::Line(self.name.clone(), self.lines)
    }

    fn newest(&self) -> Option<&Cursor> {
        self.ready.changes.cursor().or(self.before.as_ref())
    }

    /// Returns the number of changes up to the newest cursor, and their bytes; `None` if no cursor
    /// came since the last group.
    pub fn ready(&self) -> Option<(usize, usize)> {
        self.ready.changes.cursor().map(|_| (self.ready.changes.len(), self.ready.bytes))
    }

    /// Returns the changes up to the newest cursor; `None` if no cursor came since the last group.
    pub fn take(&mut self) -> Option<Group> {
        let cursor = self.ready.changes.cursor()?.clone();
        let Part { mut changes, lines, .. } = std::mem::take(&mut self.ready);
        changes.set_after(self.before.replace(cursor));
        let lines = lines.unwrap_or_else(|| Lines { first: self.place(), last: self.place() });
        Some(Group { changes, lines })
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// [`StoreError::Malformed`] if there are changes after the newest cursor.
    pub fn finish(self) -> Result<(), StoreError> {
        match self.open.lines {
            Some(Lines { first, .. }) if !self.open.changes.is_empty() => Err(uncovered(first)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use spirea_protocols::TableKind;
    use spirea_protocols::delta::Change;

    use super::*;

    fn grouping(before: Option<&str>) -> Grouping {
        let table =
            Table { fields: vec!["note".into()], ..spirea_specimens::table(TableKind::Keyword, 3, 40) };
        Grouping::new(table, before.map(cursor), "stream")
    }

    fn line_at(number: u64) -> Location {
        Location::Line("stream".into(), number)
    }

    fn cursor(text: &str) -> Cursor {
        Cursor::try_from(text.to_owned()).unwrap()
    }

    proptest! {
        /// Together, the groups have all changes that cursors cover, in order, no matter when
        /// groups are taken.
        #[test]
        fn groups_have_each_covered_change_once(
            lines in proptest::collection::vec((0..5u8, any::<Option<bool>>(), any::<bool>(), any::<bool>()), 0..40)
        ) {
            let (mut stream, mut found, mut at) = (grouping(None), Changes::new(), None);
            let (mut covered, mut open) = (Changes::new(), Changes::new());
            for (number, (key, value, ends, takes)) in lines.into_iter().enumerate() {
                let cursor = ends.then(|| cursor(&number.to_string()));
                let mut line = match value {
                    Some(value) => json!({ "key": key, "value": value }),
                    None => json!({ "key": key, "deleted": true }),
                };
                line["cursor"] = json!(cursor);
                stream.add(line.to_string().as_bytes()).unwrap();
                match value {
                    Some(value) => open.put(key.to_string(), value.to_string()),
                    None => open.delete(key.to_string()),
                }
                if let Some(cursor) = cursor {
                    covered.extend(std::mem::take(&mut open));
                    covered.set_cursor(cursor);
                }
                if takes && let Some(Group { changes, lines }) = stream.take() {
                    prop_assert_eq!(changes.after(), &After::Exactly(at.clone()));
                    at = changes.cursor().cloned();
                    let last = at.as_ref().unwrap().as_str().parse::<u64>().unwrap();
                    prop_assert_eq!(lines.last, line_at(last + 1));
                    found.extend(changes);
                    prop_assert_eq!(&found, &covered);
                }
            }
            found.extend(stream.take().map(|group| group.changes).unwrap_or_default());
            prop_assert_eq!(found, covered);
            prop_assert_eq!(stream.finish().is_ok(), open.is_empty());
        }
    }

    #[test]
    fn groups_end_with_cursors() {
        let mut stream = grouping(Some("0"));
        for line in [
            r#"{"after": "0"}"#,
            r#"{"key": "a", "value": "1"}"#,
            "",
            r#"{"key": "b", "value": "1", "cursor": "1"}"#,
            r#"{"key": "a", "value": "2"}"#,
        ] {
            stream.add(line.as_bytes()).unwrap();
        }
        assert_eq!(stream.ready(), Some((2, 4)));
        let Group { changes, lines } = stream.take().unwrap();
        assert_eq!((changes.len(), lines.to_string().as_str()), (2, "stream, lines 1 to 4"));
        assert_eq!(changes.get(b"a"), Some(Change::Put(b"1")));
        assert_eq!(
            (changes.after(), changes.cursor()),
            (&After::Exactly(Some(cursor("0"))), Some(&cursor("1")))
        );
        assert!(stream.take().is_none() && stream.ready().is_none());

        stream.add(br#"{"key": "a", "deleted": true}"#).unwrap();
        stream.add(br#"{"cursor": "2"}"#).unwrap();
        let Group { changes, lines } = stream.take().unwrap();
        assert_eq!((changes.len(), lines.to_string().as_str()), (1, "stream, lines 5 to 7"));
        assert_eq!(changes.get(b"a"), Some(Change::Delete));
        assert_eq!(changes.after(), &After::Exactly(Some(cursor("1"))));
        stream.finish().unwrap();
    }

    #[test]
    fn a_group_may_have_lines_of_several_inputs() {
        let mut stream = grouping(None);
        let mut names = Vec::new();
        for (name, lines) in [("a", 1), ("b", 0), ("c", 2)] {
            stream.next_input(name);
            for number in 0..lines {
                let line = json!({ "key": format!("{name}{number}"), "value": "" });
                assert!(!stream.add(line.to_string().as_bytes()).unwrap());
            }
            stream.cover(cursor(&format!("{name}:{}", stream.lines())));
            if name != "b" {
                let Group { changes, lines } = stream.take().unwrap();
                names.push(format!("{} {lines}", changes.cursor().unwrap().as_str()));
            }
        }
        assert_eq!(names, ["a:1 a:1", "c:2 c, lines 1 to 2"]);
        for name in ["d", "e"] {
            stream.next_input(name);
            stream.add(br#"{"key": "k", "value": ""}"#).unwrap();
        }
        stream.cover(cursor("e:1"));
        assert_eq!(stream.take().unwrap().lines.to_string(), "d:1 to e:1");
        stream.next_input("f");
        let error = stream.add(b"{").unwrap_err().to_string();
        assert!(error.starts_with("f:1: "), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let long = format!(r#"{{"cursor": "{}"}}"#, "c".repeat(Cursor::MOST_BYTES + 1));
        let bulky = format!(r#"{{"key": "a", "value": "{}"}}"#, "v".repeat(MOST_OPEN_BYTES / 2));
        for (lines, part) in [
            (vec!["", r#"{"key": "a"}"#], "stream:2: "),
            (
                vec![r#"{"after": "x"}"#],
                "stream:1: it follows the cursor \"x\", and what came before ends with no cursor",
            ),
            (vec![r#"{"cursor": "1"}"#, r#"{"after": null}"#], "stream:2: it follows no cursor"),
            (vec![&long], "stream:1: a cursor of 257 bytes"),
            (vec![r#"{"cursor": 7}"#], "stream:1: "),
            (vec![&bulky, &bulky], "stream:2: more than 1 KiB"),
        ] {
            let mut stream = grouping(None);
            let error = lines.iter().find_map(|line| stream.add(line.as_bytes()).err()).unwrap().to_string();
            assert!(error.starts_with(part), "{error}");
        }
        let mut stream = grouping(None);
        stream.add(br#"{"cursor": "1"}"#).unwrap();
        stream.add(br#"{"key": "a", "deleted": true}"#).unwrap();
        assert!(stream.finish().unwrap_err().to_string().starts_with("stream:2: no cursor follows"));
    }
}
