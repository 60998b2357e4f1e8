"""Programs of Debian for another architecture, in a folder of their own, without root and without a change of this machine."""

from system.programs import run


def unpack(names, architecture, folder):
    """Downloads Debian packages for an architecture, and all that they need, and unpacks them. Returns the root."""
    state, root = folder / "apt", folder / "root"
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True)
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        # Downloads belong to the user of the test, also if that is root.
        "APT::Sandbox::User": "root",
        "Dir::Cache": state / "cache",
        "Dir::State::lists": state / "lists",
        # Nothing is installed there.
        "Dir::State::status": "/dev/null",
        "Debug::NoLocking": "1",
    }
    apt = ["apt-get", "-qq", *(f"--option={name}={value}" for name, value in settings.items())]
    run(*apt, "update")
    run(*apt, "install", "--yes", "--download-only", "--no-install-recommends", *names)
    for package in sorted((state / "cache/archives").glob("*.deb")):
        run("dpkg-deb", "--extract", package, root)
    return root
