"""Types of fields and forms of keys (wire.md 5.10 and 5.11)."""

import json
import re
import unicodedata

from .errors import BadRequest, Malformed

TYPES = frozenset(
    [
        "text",
        "bytes",
        "integer",
        "number",
        "decimal",
        "boolean",
        "date",
        "time",
        "datetime",
        "instant",
        "duration",
        "uuid",
        "json",
    ]
)
TEXT_STEPS = frozenset(["trim", "nfc", "lower"])
STEPS = TEXT_STEPS | {"domain", "e164", "hex"}
# The characters with the property White_Space.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
LABEL = r"[a-z0-9_*-]{1,63}"


def check(table):
    """Checks the types and the form of keys of a table."""
    types = table.get("types")
    if types is not None and (len(types) != len(table["fields"]) or not types or not set(types) <= TYPES):
        raise Malformed("the table's types are not those of its fields")
    if "key_form" not in table:
        return
    form = table["key_form"]
    steps = form["steps"]
    if table["kind"] != "keyword" or not set(form) <= {"steps", "region", "unicode", "phone_rules"}:
        raise Malformed("the table's key_form has other members, or belongs to a table with keys")
    if not steps or len(set(steps)) < len(steps) or not set(steps) <= (TEXT_STEPS if len(steps) > 1 else STEPS):
        raise Malformed("the table's key_form has other steps")
    is_phone = steps == ["e164"]
    if ("region" in form and not is_phone) or not re.fullmatch("[A-Z]{2}", form.get("region", "CH")):
        raise Malformed("the table's key_form has another region")
    if ("phone_rules" in form) != is_phone or ("unicode" in form) != (not set(steps) <= {"e164", "hex"}):
        raise Malformed("the table's key_form lacks a version, or has one too many")
    for version in (form.get("unicode", "1.0.0"), form.get("phone_rules", "1.0.0")):
        if not re.fullmatch(r"\d{1,5}\.\d{1,5}\.\d{1,5}", version) or len(version) > 16:
            raise Malformed("the table's key_form has a version that is none")


def in_form(form, key):
    """Returns the normal form of a key, or the key itself if it has none."""
    if form is None:
        return key
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return key
    while True:
        before = text
        for step in form["steps"]:
            text = made(step, text)
            if text is None:
                return key
        if text == before:
            return text.encode()


def made(step, text):
    """Applies a step to a text. Returns None if the step is impossible."""
    if step not in ("e164", "hex") and any(unicodedata.category(character) == "Cn" for character in text):
        raise BadRequest("the key has characters that this client does not know")
    if step == "trim":
        return text.strip(WHITE_SPACE)
    if step == "nfc":
        return unicodedata.normalize("NFC", text)
    if step == "lower":
        return text.lower()
    if step == "hex":
        digits = text[2:] if text[:2] in ("0x", "0X") else text
        return digits.lower() if re.fullmatch("[0-9a-fA-F]+", digits) else None
    if step == "domain":
        if not text.isascii():
            raise BadRequest("this client knows no domain names beyond ASCII: give the one that begins with xn--")
        name = text.lower().removesuffix(".")
        return name if len(name) <= 253 and re.fullmatch(rf"{LABEL}(\.{LABEL})*", name) else None
    if not re.fullmatch(r"\+[1-9]\d{6,14}", text):
        raise BadRequest("this client knows no phone numbers but those of E.164, such as +41446681800")
    return text


def shown(kind, field):
    """Converts a field to the JSON value that `spirea get --json` shows."""
    try:
        text = field.decode()
    except UnicodeDecodeError:
        return {"hex": field.hex()}
    if kind == "bytes":
        return {"hex": field.hex()}
    if kind is None or kind == "text" or (text and not admitted(kind, text)):
        return text
    if not text or (kind == "number" and not text[-1].isdigit()):
        return None
    return json.loads(text) if kind in ("integer", "number", "decimal", "boolean", "json") else text


def admitted(kind, text):
    """True if a text is valid for a type that is shown as a JSON value other than a string; True for other types."""
    if kind in ("integer", "number", "decimal", "boolean", "json"):
        try:
            value = json.loads(text)
        except ValueError:
            return kind == "number" and text in ("NaN", "Infinity", "-Infinity")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return {"boolean": isinstance(value, bool), "json": True}.get(kind, is_number)
    return True
