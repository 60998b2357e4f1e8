//! Rules for forms of keys, which a module of their own contains (`bindings/wasm-forms`).

use spirea_client::{KeyInForm, Rules};
use spirea_protocols::table::KeyForm;

use crate::environment::{Question, ask_rules};

/// Rules that JavaScript forwards to that module.
pub const RULES: Rules = Rules { check, bring };

/// Reason why reading an answer cannot fail: the JavaScript half forwards only answers of the
/// expected form. Any other answer ends the instance.
const OF_ONE_VERSION: &str = "modules of one version";

fn check(form: &KeyForm) -> Result<(), String> {
    let (fault, _): (Option<String>, _) =
        ask_rules(Question::Check, &json(form), &[]).take().expect(OF_ONE_VERSION);
    fault.map_or(Ok(()), Err)
}

fn bring(form: &KeyForm, key: &[u8]) -> KeyInForm {
    let (is_known, key) = ask_rules(Question::Bring, &json(form), key).take().expect(OF_ONE_VERSION);
    KeyInForm { key, is_known }
}

fn json(form: &KeyForm) -> Vec<u8> {
    serde_json::to_vec(form).expect("a form is plain data")
}
