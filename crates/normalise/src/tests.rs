use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization as _;

use super::*;

fn of(steps: &[KeyStep], region: Option<&str>) -> KeyForm {
    form(steps.to_vec(), region.map(Into::into)).unwrap()
}

fn text(form: &KeyForm, key: &str) -> Result<String, &'static str> {
    normalised(form, key.as_bytes()).map(|key| String::from_utf8(key.to_vec()).unwrap())
}

#[test]
fn each_step_brings_keys_into_its_form() {
    use KeyStep::{Domain, E164, Hex, Lower, Nfc, Trim};
    let [trim, nfc, lower, domain, hex] = [Trim, Nfc, Lower, Domain, Hex].map(|step| of(&[step], None));
    let (email, swiss, abroad) = (of(&[Trim, Nfc, Lower], None), of(&[E164], Some("CH")), of(&[E164], None));
    let cases = [
        (&trim, "\u{a0} a b\t\n", Ok("a b")),
        (&nfc, "Mu\u{308}nchen", Ok("München")),
        (&nfc, "\u{212b}", Ok("Å")),
        (&nfc, "a\u{378}", Err("has characters that Unicode has not assigned")),
        (&lower, "ΟΔΟΣ MÜNCHEN İ", Ok("οδος münchen i\u{307}")),
        (&email, " Zo\u{65}\u{308}@Example.COM ", Ok("zoë@example.com")),
        (&domain, "WWW.Example.COM.", Ok("www.example.com")),
        (&domain, "faß.de", Ok("xn--fa-hia.de")),
        (&domain, "_dmarc.example.com", Ok("_dmarc.example.com")),
        (&domain, "例え。テスト", Ok("xn--r8jz45g.xn--zckzah")),
        (&domain, "", Err("is no domain name")),
        (&domain, ".", Err("is no domain name")),
        (&domain, "a..b", Err("is no domain name")),
        (&domain, "https://example.com/", Err("is no domain name")),
        (&domain, "*.example.com", Ok("*.example.com")),
        (&swiss, "044 668 18 00", Ok("+41446681800")),
        (&swiss, "0041 (0)44-668-18-00", Ok("+41446681800")),
        (&swiss, "+1 650 253 0000", Ok("+16502530000")),
        (&swiss, "tel:+41-44-668-18-00", Ok("+41446681800")),
        (&abroad, "+41446681800", Ok("+41446681800")),
        (&abroad, "044 668 18 00", Err("is no phone number")),
        (&swiss, "nobody", Err("is no phone number")),
        (&hex, "0xDEADbeef", Ok("deadbeef")),
        (&hex, "abc", Ok("abc")),
        (&hex, "0x", Err("is not made of hexadecimal digits")),
        (&hex, "g", Err("is not made of hexadecimal digits")),
    ];
    for (form, key, expected) in cases {
        assert_eq!(text(form, key), expected.map(str::to_owned), "{key:?} by {:?}", form.steps);
    }
    assert_eq!(normalised(&trim, b"\xff").unwrap_err(), "is not text in UTF-8");
    assert_eq!(normalised(&domain, "a.".repeat(200).as_bytes()).unwrap_err(), "is no domain name");
}

#[test]
fn steps_and_regions_that_there_are_not_are_refused() {
    assert!(form(vec![], None).unwrap_err().contains("at least one"));
    assert!(form(vec![KeyStep::Hex, KeyStep::Trim], None).unwrap_err().contains("several"));
    for region in ["XX", "ZZ"] {
        assert!(
            form(vec![KeyStep::E164], Some(region.into())).unwrap_err().contains("such as CH"),
            "{region}"
        );
    }
}

#[test]
fn a_key_that_has_no_form_is_asked_for_as_it_is() {
    let form = of(&[KeyStep::Hex], None);
    assert_eq!(*asked(Some(&form), b"0xAB"), *b"ab");
    assert_eq!(*asked(Some(&form), b"no digits"), *b"no digits");
    assert_eq!(*asked(None, b"0xAB"), *b"0xAB");
}

#[test]
fn characters_that_are_newer_than_this_software_are_unknown_to_it() {
    let mut form = of(&[KeyStep::Nfc], None);
    let key = "a\u{378}".as_bytes();
    assert!(is_known(Some(&form), key), "whoever built the table knew no more");
    form.unicode = Some("99.0.0".into());
    assert!(!is_known(Some(&form), key) && is_known(Some(&form), "München".as_bytes()));
    assert!(is_known(Some(&of(&[KeyStep::Hex], None)), key) && is_known(None, key));
}

/// Tests every character alone and next to letters with which it may combine.
#[test]
fn forms_of_characters_are_reached_at_once() {
    use KeyStep::{Domain, Lower, Nfc, Trim};
    let forms = [of(&[Trim, Nfc, Lower], None), of(&[Lower, Nfc, Trim], None), of(&[Domain], None)];
    for character in '\0'..=char::MAX {
        for key in [character.to_string(), format!("I{character}\u{307}"), format!("{character}Σ{character}")]
        {
            for form in &forms {
                if let Ok(once) = text(form, &key) {
                    assert_eq!(text(form, &once).as_ref(), Ok(&once), "{key:?} by {:?}", form.steps);
                }
            }
        }
    }
}

/// The versions in manifests are those of the libraries.
#[test]
fn versions_are_those_of_the_libraries() {
    let (major, minor, patch) = unicode_normalization::UNICODE_VERSION;
    assert_eq!(UNICODE, format!("{major}.{minor}.{patch}"));
    let category = CodePointMapData::<GeneralCategory>::new();
    for character in '\0'..=char::MAX {
        let is_private = category.get(character) == GeneralCategory::PrivateUse;
        let is_assigned = is_assigned(&character.to_string());
        assert_eq!(
            is_assigned,
            is_private || unicode_normalization::char::is_public_assigned(character),
            "{character:?}"
        );
    }
    let lock = include_str!("../../../Cargo.lock");
    // The README of this version of the library names the rules.
    assert!(
        lock.contains("name = \"rlibphonenumber\"\nversion = \"2.2.15\"\n"),
        "update PHONE_RULES with it"
    );
}

/// Found by libFuzzer: the library writes a number for this text, and reads another from that
/// number.
#[test]
fn a_text_with_a_number_that_is_read_otherwise_has_no_form() {
    let key = b")A+.)x/000x13333333333xJ2J\x01\0\0\0\0\0\0\0";
    let forms = [of(&[KeyStep::E164], None), of(&[KeyStep::E164], Some("DE"))];
    for form in forms {
        if let Ok(once) = normalised(&form, key) {
            assert_eq!(normalised(&form, &once).unwrap(), once);
        }
    }
    let numbers = [
        "+39 02 3661 8300",
        "+49 30 123456 ext. 7",
        "+1 (201) 555-0123",
        "+54 9 343 555 1212",
        "+52 1 33 1234 5678",
    ];
    for number in numbers {
        normalised(&of(&[KeyStep::E164], None), number.as_bytes()).unwrap();
    }
}

proptest! {
    #[test]
    fn a_form_is_reached_at_once(key in "\\PC{0,12}|[-+0-9 ()a-z.]{0,16}|[A-Za-zß-ž.。-]{0,20}") {
        use KeyStep::{Domain, E164, Hex, Lower, Nfc, Trim};
        let forms = [
            of(&[Trim], None), of(&[Nfc], None), of(&[Domain], None), of(&[E164], Some("DE")), of(&[Hex], None),
            of(&[Trim, Lower, Nfc], None), of(&[Nfc, Lower], None), of(&[Lower, Trim], None),
        ];
        for form in forms {
            if let Ok(once) = normalised(&form, key.as_bytes()) {
                prop_assert_eq!(normalised(&form, &once).unwrap(), once.clone(), "by {:?}", form.steps);
            }
        }
    }

    #[test]
    fn composed_text_is_that_of_another_library(key in "[a-zA-Zà-ÿ\u{300}-\u{36f}가-힣ᄀ-ᇿ]{0,12}") {
        prop_assert_eq!(text(&of(&[KeyStep::Nfc], None), &key).unwrap(), key.nfc().collect::<String>());
    }

    #[test]
    fn any_bytes_have_a_form_or_none(key: Vec<u8>) {
        for (_, step) in KeyStep::ALL {
            let _ = normalised(&of(&[step], None), &key);
        }
    }
}
