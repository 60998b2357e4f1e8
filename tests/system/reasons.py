"""The reasons for which client code is declassified, as docs/constant-time.md lists them."""

import re

from system.programs import ROOT

# The sections with lists: of the protocols' clients, and of the session around them.
PROTOCOLS = "What is declassified, and why"
SESSION = "What is declassified in a session"


def listed(section):
    """The reasons in a section's list."""
    text = (ROOT / "docs/constant-time.md").read_text(encoding="utf-8")
    _, found, rest = text.partition(f"\n## {section}\n")
    assert found, f"docs/constant-time.md has no section '{section}'"
    return set(re.findall(r"^- (.*)\.$", rest.split("\n## ")[0], re.MULTILINE))
