use icu_casemap::CaseMapper;
use icu_locale_core::LanguageIdentifier;
use icu_normalizer::ComposingNormalizerBorrowed;
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumberFormat, Region};
use spirea_protocols::table::KeyStep;

use crate::is_assigned;

/// Applies a step to a text.
///
/// # Errors
/// The fault of the text, as words that follow "it".
pub(crate) fn step(step: KeyStep, region_code: Option<&str>, text: &str) -> Result<String, &'static str> {
    if step.uses_unicode() && !is_assigned(text) {
        return Err("has characters that Unicode has not assigned");
    }
    match step {
        KeyStep::Trim => Ok(text.trim().to_owned()),
        KeyStep::Nfc => Ok(ComposingNormalizerBorrowed::new_nfc().normalize(text).into_owned()),
        KeyStep::Lower => {
            Ok(CaseMapper::new().lowercase_to_string(text, &LanguageIdentifier::UNKNOWN).into_owned())
        }
        KeyStep::Domain => domain(text).ok_or("is no domain name"),
        KeyStep::E164 => phone(text, region_code).ok_or("is no phone number"),
        KeyStep::Hex => hex(text).ok_or("is not made of hexadecimal digits"),
    }
}

/// Converts a domain name by UTS #46, without a final dot. Labels and length must be those that DNS
/// allows.
fn domain(text: &str) -> Option<String> {
    let ascii = Uts46::new().to_ascii(
        text.as_bytes(),
        AsciiDenyList::URL,
        Hyphens::Allow,
        DnsLength::VerifyAllowRootDot,
    );
    let mut name = ascii.ok()?.into_owned();
    if name.ends_with('.') {
        name.pop();
    }
    (!name.is_empty()).then_some(name)
}

/// Returns a phone number in E.164 form. The library parses even nonsense with a plus sign. If it
/// then parses its own output as another number, the text has no form.
fn phone(text: &str, region_code: Option<&str>) -> Option<String> {
    let region = region_code.map(region).transpose().ok()?;
    let e164 = |text: &str| {
        let number = PHONE_NUMBER_UTIL.parse(text, region).ok()?;
        Some(PHONE_NUMBER_UTIL.format(&number, PhoneNumberFormat::E164).into_owned())
    };
    e164(text).filter(|once| e164(once).as_ref() == Some(once))
}

/// Parses the code of a region.
pub(crate) fn region(code: &str) -> Result<Region, String> {
    let unknown =
        || format!("{code:?} is no region whose phone numbers are known: give two letters, such as CH");
    let region = Region::from_code(code).map_err(|_| unknown())?;
    let is_known = PHONE_NUMBER_UTIL.get_supported_regions().any(|known| known == region);
    if is_known { Ok(region) } else { Err(unknown()) }
}

fn hex(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let is_hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| digits.to_ascii_lowercase())
}
