"""The gateway of the coordinator, without Ray."""

import json
import os
import sys
import threading
import time

from spirea.cluster import authority, config
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


def test_the_first_certificate_and_a_placement_may_come_at_the_same_time(tmp_path, monkeypatch):
    conf = config.Config("library", "/store", "/state", str(tmp_path / "work"), (config.Database("keyed", "/keyed", 1),))
    authorities = {role: authority.Authority(tmp_path / "state", role) for role in authority.ROLES}
    ready = [sys.executable, "-c", "import time; print('{\"ready\": true}', flush=True); time.sleep(600)"]
    replace = os.replace

    def slowly(partial, path):
        time.sleep(0.1)
        replace(partial, path)

    monkeypatch.setattr("spirea.cluster.gateway.os.replace", slowly)
    gateway = Gateway(conf, lambda *arguments: ready)
    placement = {"databases": [{"name": "keyed", "snapshots": []}]}

    request = gateway.report()["request"]

    def certify():
        signed = authorities[authority.COORDINATORS].sign(request, 3600.0, authority.COORDINATOR)
        gateway.certify(signed, authorities[authority.WORKERS].certificate)

    calls = [certify, certify, lambda: gateway.place(placement), lambda: gateway.place(placement)]
    threads = [threading.Thread(target=call) for call in calls]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        deadline = time.monotonic() + 60
        while (report := gateway.report())["pid"] is None:
            assert time.monotonic() < deadline, report
            time.sleep(0.02)
        assert (report["request"], report["restarts"], report["trouble"]) == (None, 0, "")
        assert json.loads((tmp_path / "work/library/coordinator/placement.json").read_text()) == placement
    finally:
        gateway.stop()
