"""First pages of files, and the commands that they tell a newcomer."""

import re
import shutil
import tarfile
from pathlib import Path

from system import console
from system.newcomer import roots

INSTALLATION = re.compile(r"^## Install\n.*?^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:7080"
# A table and its server, for pages that have none.
SERVER = f"""printf 'domain,verdict\\nexample.org,fine\\nexample.net,bad\\n' > domains.csv
spirea build --quiet --input domains.csv --key domain --value verdict --out domains
spirea serve domains --listen 127.0.0.1:7080 2> server.log &
spirea get {ADDRESS} domains example.net --wait 30"""


def packed(archive, path):
    """Returns a text within a tar archive."""
    with tarfile.open(archive) as opened:
        (member,) = [member for member in opened if Path(member.name).match(path)]
        return opened.extractfile(member).read().decode()


def installation(page, name):
    """Returns the line by which a page installs a file: sudo is for users other than root."""
    lines = [line.split("#")[0].strip().removeprefix("sudo ") for line in INSTALLATION.search(page)[1].splitlines()]
    found = [line for line in lines if any(Path(name).match(word) for word in line.split())]
    assert len(found) == 1, f"{name}: {found}"
    return found[0]


def blocks(page, language):
    """Returns the blocks of code of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def javascript(page):
    """Returns the only program of a page in JavaScript, for SERVER."""
    (block,) = blocks(page, "js")
    return block.replace("https://pir.example.org", ADDRESS)


def follow(root, commands, page, seconds=console.SECONDS):
    """Runs commands, and then those of a page, in a root."""
    steps = [(command, []) for command in commands] + console.steps(page)
    assert any(output for _, output in steps), "the page promises no output"
    console.run_steps(steps, root.shell(), root.home, seconds=seconds)


def look_up(root, commands, last, seconds=console.SECONDS):
    """Runs commands in a root. The last one must print the verdict of SERVER's table."""
    steps = [*((command, []) for command in commands), (last, ["bad"])]
    console.run_steps(steps, root.shell(), root.home, seconds=seconds)


def with_archive(release, root):
    """Unpacks the command for pages whose reader has a server elsewhere. Returns the line that puts it on the path."""
    archive = release.find("spirea-*-{architecture}-linux.tar.xz")
    shutil.unpack_archive(archive, root.home, filter="data")
    (binaries,) = root.home.glob("spirea-*/bin")
    return f'export PATH="{roots.HOME}/{binaries.relative_to(root.home)}:$PATH"'
