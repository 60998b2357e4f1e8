"""The gateway of the coordinator, without Ray."""

import os
import time

from spirea.cluster import config
from spirea.cluster.files import Folder
from spirea.cluster.gateway import Gateway


def test_a_gateway_that_starts_again_has_the_folders_that_its_coordinator_was_told_of(tmp_path, keyed):
    conf = config.Config("library", "/store", "/state", str(tmp_path), (config.Database("keyed", "/keyed", 1),))
    gateway, url = Gateway(conf), os.fspath(keyed)
    version = Folder(url).version()
    gateway.prepare(version, url)
    deadline = time.monotonic() + 300
    while not (folders := gateway.report()["folders"]):
        assert time.monotonic() < deadline, gateway.report()
        time.sleep(0.02)
    assert Gateway(conf).report()["folders"] == {}
    gateway.place(
        {"databases": [{"name": "keyed", "snapshots": [{"path": folders[version], "version": version, "shares": [[]]}]}]}
    )
    assert Gateway(conf).report()["folders"] == folders
    gateway.forget(version)
    assert Gateway(conf).report()["folders"] == {}
