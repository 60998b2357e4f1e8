"""The reasons for declassifying values in client code, as listed in docs/constant-time.md."""

import re

from system.programs import ROOT

# Sections with lists: for the protocols' clients, and for the session around them.
PROTOCOLS = "What is declassified, and why"
SESSION = "What is declassified in a session"


def listed(section):
    """Returns the reasons in a section's list."""
    text = (ROOT / "docs/constant-time.md").read_text(encoding="utf-8")
    _, found, rest = text.partition(f"\n## {section}\n")
    assert found, f"docs/constant-time.md has no section '{section}'"
    return set(re.findall(r"^- (.*)\.$", rest.split("\n## ")[0], re.MULTILINE))
