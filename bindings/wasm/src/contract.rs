//! The contract with the JavaScript half: `clients/ts/src/worker/heads.ts`, generated from the
//! types of this crate, so that TypeScript checks every message against them.

use std::iter::successors;

use spirea_protocols::table::FieldType;
use ts_rs::{Config, TS};

use crate::cache::Change;
use crate::errors::{Circumstances, Code, Failure};
use crate::shim::{
    Came, Costs, Described, Found, Kept, Kind, Next, Options, Outcome, Stored, ToSend, Wanted,
};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/ts/src/worker/heads.ts");

const HEAD: &str = "\
// Heads of the messages to and from the compiled client, and the public types that they contain.
//
// A test of bindings/wasm generates this file:
// SPIREA_WRITE_VECTORS=1 cargo test -p spirea-wasm contract

";

/// Most columns of a line of TypeScript.
const WIDTH: usize = 127;

/// Codes that only the JavaScript half gives, each with its documentation.
const CODES_OF_JAVASCRIPT: [(&str, &str); 2] = [
    (
        "no-worker",
        "The client's worker or its compiled code cannot start: its files are missing, the page's policy forbids \
         them, or the engine is too old.",
    ),
    ("closed", "The client was closed."),
];

#[test]
fn typescript_has_the_types_of_this_crate() {
    let generated = heads();
    if std::env::var_os("SPIREA_WRITE_VECTORS").is_some() {
        std::fs::write(FILE, &generated).unwrap();
    }
    let found = std::fs::read_to_string(FILE).unwrap();
    assert!(found == generated, "{FILE} is stale: its first lines say how to write it anew");
}

fn heads() -> String {
    let codes = Code::ALL.iter().copied().chain(CODES_OF_JAVASCRIPT);
    let codes = codes.map(|(name, docs)| format!("\n{}  | \"{name}\"", comment("  ", docs)));
    let types = FieldType::ALL.iter().map(|(name, _)| format!("\n  | \"{name}\""));
    let declarations = [
        union("Code of an error, for programs. Codes are stable across releases.", "ErrorCode", codes),
        declaration::<Circumstances>(),
        declaration::<Failure>(),
        union(
            "The type of a field, used by {@link Value.value} to convert the field's text (docs/tables.md, \"Types\").",
            "FieldType",
            types,
        ),
        declaration::<Described<'_>>(),
        declaration::<Costs>(),
        steps(),
        declaration::<Options>(),
        declaration::<Stored>(),
        declaration::<Wanted>(),
        declaration::<ToSend<'_>>(),
        declaration::<Came>(),
        declaration::<Kind>(),
        declaration::<Found>(),
        declaration::<Outcome>(),
        declaration::<Change>(),
        declaration::<Kept>(),
    ];
    HEAD.to_owned() + &declarations.join("\n")
}

fn union(docs: &str, name: &str, members: impl Iterator<Item = String>) -> String {
    format!("{}export type {name} ={};\n", comment("", docs), members.collect::<String>())
}

/// Declares the numbers of the steps.
fn steps() -> String {
    // Each step leads to another one, so that the compiler notices a step that is missing here.
    let after = |step: &Next| match step {
        Next::Send => Some(Next::Read),
        Next::Read => Some(Next::Wait),
        Next::Wait => Some(Next::Connected),
        Next::Connected => Some(Next::Values),
        Next::Values => Some(Next::Failed),
        Next::Failed => Some(Next::Rules),
        Next::Rules => None,
    };
    let steps = successors(Some(Next::Send), after).map(|step| format!("{step:?}: {}", step as u8));
    let steps = steps.collect::<Vec<_>>().join(", ");
    format!("{}export const Next = {{ {steps} }} as const;\n", comment("", "Next step of a conversation."))
}

/// Declares a type: as an interface if it has only fields.
fn declaration<T: TS>() -> String {
    let config = Config::default().with_large_int("number");
    let declared = T::decl(&config);
    let (name, body) = declared.strip_prefix("type ").unwrap().split_once(" = ").unwrap();
    let docs = comment("", &T::docs().map_or_else(String::new, |docs| text_of(&docs)));
    let members = parts(body.strip_suffix(';').unwrap(), '|');
    if let [only] = &members[..] {
        let fields = fields(only).unwrap().into_iter();
        let fields: String =
            fields.map(|(docs, field)| format!("{}  {field};\n", comment("  ", &docs))).collect();
        return format!("{docs}export interface {name} {{\n{fields}}}\n");
    }
    let member = |member: String| match fields(&member) {
        Some(fields) => {
            let fields: Vec<String> = fields.into_iter().map(|(_, field)| field).collect();
            format!("\n  | {{ {} }}", fields.join("; "))
        }
        None => format!("\n  | {member}"),
    };
    format!("{docs}export type {name} ={};\n", members.into_iter().map(member).collect::<String>())
}

/// Returns the fields of an object, each with its documentation; `None` for another type.
fn fields(object: &str) -> Option<Vec<(String, String)>> {
    let inner = object.strip_prefix('{')?.strip_suffix('}')?;
    let fields = parts(inner, ',').into_iter().filter(|field| !field.is_empty());
    let field = |field: String| {
        let (docs, field) = field.split_once("*/").unwrap_or(("", &field));
        let (name, of) = field.trim().split_once(": ").unwrap();
        (text_of(docs), format!("{}: {of}", name.trim_matches('"')))
    };
    Some(fields.map(field).collect())
}

/// Splits TypeScript where a separator is outside of brackets and comments.
fn parts(text: &str, separator: char) -> Vec<String> {
    let (mut parts, mut depth, mut in_comment) = (vec![String::new()], 0_usize, false);
    for (i, character) in text.char_indices() {
        if text[i..].starts_with("/**") {
            in_comment = true;
        } else if text[..i].ends_with("*/") {
            in_comment = false;
        }
        match character {
            _ if in_comment => {}
            '{' | '<' | '[' => depth += 1,
            '}' | '>' | ']' => depth -= 1,
            _ if character == separator && depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(character);
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// Returns the text of a comment, in one line.
fn text_of(comment: &str) -> String {
    let lines = comment
        .lines()
        .map(|line| line.trim().trim_start_matches(['/', '*']).trim_end_matches(['/', '*']).trim());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Writes documentation as a comment; nothing for none.
fn comment(indent: &str, docs: &str) -> String {
    let docs: Vec<&str> = docs.split_whitespace().collect();
    let line = format!("{indent}/** {} */\n", docs.join(" "));
    if docs.is_empty() {
        return String::new();
    }
    if line.len() <= WIDTH + 1 {
        return line;
    }
    let (mut lines, mut last) = (format!("{indent}/**\n"), format!("{indent} *"));
    for word in docs {
        if last.len() + 1 + word.len() > WIDTH {
            lines += &format!("{last}\n");
            last = format!("{indent} *");
        }
        last += &format!(" {word}");
    }
    lines + &format!("{last}\n{indent} */\n")
}
