"""The base commit of the tests: the newest commit that is known to have passed the full form.

The environment's BASE has priority. The next choice is the reference refs/spirea/full-tests, which a passing full run writes
in its repository. The last one is the commit in tests/FULL_PASSED, which a clone has too.
"""

import os
import subprocess

REFERENCE = "refs/spirea/full-tests"
COMMITTED = "tests/FULL_PASSED"


def git(root, *arguments):
    """Runs git and returns its output; None if it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def base_commit(root):
    """Returns the base commit's hash; None if this repository's history has none."""
    asked = os.environ.get("BASE")
    if asked:
        commit = git(root, "rev-parse", "--verify", "--quiet", f"{asked}^{{commit}}")
        if commit is None:
            raise SystemExit(f"BASE={asked}: git knows no such commit")
        return commit
    file = root / COMMITTED
    for name in (REFERENCE, file.read_text().split()[0] if file.is_file() else None):
        commit = name and git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        # A commit of another history is no base for this one.
        if commit and git(root, "merge-base", "--is-ancestor", commit, "HEAD") is not None:
            return commit
    return None


def changed_files(root):
    """Returns the base commit, and the files that differ from it: committed, changed or new. Without a base both are None."""
    commit = base_commit(root)
    if commit is None:
        return None, None
    differ = git(root, "diff", "--name-only", "--no-renames", commit)
    new = git(root, "ls-files", "--others", "--exclude-standard")
    return commit, set(f"{differ}\n{new}".split("\n")) - {""}


def record(root):
    """Records HEAD as a commit that passed the full form, unless the checkout differs from it."""
    if git(root, "status", "--porcelain") == "":
        git(root, "update-ref", REFERENCE, "HEAD")
