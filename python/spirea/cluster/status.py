"""Status of a cluster: as a document, as text, as a page, and as metrics."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator, Mapping
from typing import Any

from . import scrape
from .config import Config
from .files import shown
from .state import State, Told

_ELSEWHERE = "spirea cluster status says why"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def _databases(coordinator: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {database["name"]: database for database in coordinator.get("databases", [])}


def _replicas(coordinator: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the coordinator's report on each worker, by the worker's address."""
    return {
        replica["url"]: replica
        for database in coordinator.get("databases", [])
        for snapshot in database["snapshots"]
        for share in snapshot["shares"]
        for replica in share
    }


def told(coordinator: Mapping[str, Any], state: State) -> dict[str, Told]:
    """Returns the coordinator's reports on databases; empty if it does not answer.

    The queue of a share is the number of requests at the coordinator and at the share's ready replicas, divided by the number
    of these replicas. The queue of a database is that of its longest share.
    """
    if "databases" not in coordinator:
        return {}
    said, databases = _replicas(coordinator), _databases(coordinator)
    found = {}
    for name, served in state.databases.items():
        database = databases.get(name)
        if database is None or not served.versions:
            # The coordinator does not know the database, yet or any longer: it has no request in flight.
            found[name] = Told(None, None, {})
            continue
        newest, queues = served.versions[-1], []
        for share in range(newest.shards):
            ready = newest.of(share, "ready")
            lengths = [float(said[r.address]["queue"]) for r in ready if r.address in said]
            if lengths:
                queues.append((sum(lengths) + database["waiting"]) / len(ready))
        in_flight = {each["version"]: each["in_flight"] for each in database["snapshots"]}
        found[name] = Told(database["current"], max(queues, default=None), in_flight)
    return found


def document(
    config: Config,
    state: State,
    reports: Mapping[int, Mapping[str, Any]],
    standing: Mapping[str, Any],
    coordinator: Mapping[str, Any],
    trouble: str,
) -> dict[str, Any]:
    """Returns the whole status as plain data."""
    said, loads = _replicas(coordinator), _databases(coordinator)
    databases = []
    for served in state.databases.values():
        versions = []
        for version in served.versions:
            newest = version is served.versions[-1]
            stage = "leaving" if version.leaving else "coming" if not version.served else "current" if newest else "former"
            shares = []
            for share in range(version.shards):
                replicas = []
                for replica in version.workers:
                    if replica.share == share:
                        report = reports.get(replica.number, {})
                        replicas.append(
                            {
                                "number": replica.number,
                                "phase": replica.phase,
                                "node": replica.node,
                                "address": replica.address,
                                "fetched": report.get("fetched", 0),
                                "of": report.get("of", 0),
                                "bytes": report.get("bytes"),
                                "restarts": report.get("restarts", 0),
                                "trouble": report.get("trouble", ""),
                                "coordinator": said.get(replica.address or ""),
                            }
                        )
                failure = version.failures.get(share)
                shares.append(
                    {
                        "share": share,
                        "replicas": replicas,
                        "memory": version.memory[share],
                        "failures": 0 if failure is None else failure.count,
                        "trouble": "" if failure is None else failure.why,
                    }
                )
            versions.append(
                {
                    "version": version.version,
                    "url": shown(version.url),
                    "stage": stage,
                    "complete": version.complete(),
                    "wanted": version.replicas,
                    "shares": shares,
                }
            )
        load = loads.get(served.name, {})
        databases.append(
            {
                "name": served.name,
                "versions": versions,
                "trouble": served.trouble or "",
                "waiting": load.get("waiting"),
                "queries_per_second": load.get("queries_per_second"),
                "current": load.get("current"),
            }
        )
    return {
        "name": config.name,
        "time": time.time(),
        "listen": ("http" if config.coordinator.certificate is None else "https") + f"://{config.coordinator.listen}",
        "stopping": state.stopping,
        "trouble": trouble,
        "coordinator": {
            "pid": standing.get("pid"),
            "restarts": standing.get("restarts", 0),
            "trouble": standing.get("trouble") or coordinator.get("error", ""),
        },
        "databases": databases,
    }


def without_logs(value: Any) -> Any:
    """Returns the document for the port for operations. It names the place of a trouble and omits the programs' messages,
    which may contain paths, options and parts of URLs."""
    if isinstance(value, Mapping):
        return {
            name: _ELSEWHERE if name in ("trouble", "cause") and inner else without_logs(inner)
            for name, inner in value.items()
        }
    return [without_logs(inner) for inner in value] if isinstance(value, list) else value


def serving(status: Mapping[str, Any], name: str, version: str) -> bool:
    """True if the coordinator answers with this version of a database."""
    return any(database["name"] == name and database["current"] == version for database in status["databases"])


def settled(status: Mapping[str, Any]) -> bool:
    """True if every database has one version, and all wanted replicas are ready."""
    return all(
        len(database["versions"]) == 1
        and all(
            len(share["replicas"]) == version["wanted"]
            and all((replica["coordinator"] or {}).get("state") == "ready" for replica in share["replicas"])
            for version in database["versions"]
            for share in version["shares"]
        )
        for database in status["databases"]
    )


def size(count: float) -> str:
    """Formats a number of bytes."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"


def _troubles(status: Mapping[str, Any]) -> Iterator[str]:
    if status["trouble"]:
        yield f"controller: {status['trouble']}"
    if status["coordinator"]["trouble"]:
        yield f"coordinator: {status['coordinator']['trouble']}"
    for database in status["databases"]:
        if database["trouble"]:
            yield f"{database['name']}: {database['trouble']}"
        for version in database["versions"]:
            for share in version["shares"]:
                if share["trouble"]:
                    yield f"{database['name']}: share {share['share']}: {share['trouble']}"
                for replica in share["replicas"]:
                    if replica["trouble"] and replica["phase"] != "ready":
                        yield f"{database['name']}: worker {replica['number']}: {replica['trouble']}"


def progress(status: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each database and for each trouble."""
    for database in status["databases"]:
        for version in database["versions"][-1:]:
            ready = sum(any(replica["phase"] == "ready" for replica in share["replicas"]) for share in version["shares"])
            yield f"{database['name']}: {ready} of {len(version['shares'])} shares have a ready worker"
    yield from _troubles(status)


_COLUMNS = ("database", "version", "stage", "share", "worker", "phase", "node", "address", "data", "queue", "p99", "restarts")


def _rows(status: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for database in status["databases"]:
        for version in database["versions"]:
            for share in version["shares"]:
                for replica in share["replicas"]:
                    said = replica["coordinator"] or {}
                    data = (
                        size(replica["bytes"]) if replica["bytes"] else f"{size(replica['fetched'])} of {size(replica['of'])}"
                    )
                    p99 = said.get("p99_ms")
                    yield (
                        database["name"],
                        version["version"][:12],
                        version["stage"],
                        str(share["share"]),
                        str(replica["number"]),
                        replica["phase"],
                        (replica["node"] or "-")[:8],
                        (replica["address"] or "-").removeprefix("https://"),
                        data,
                        str(said.get("queue", "-")),
                        "-" if p99 is None else f"{p99:.1f} ms",
                        str(replica["restarts"]),
                    )


def text(status: Mapping[str, Any]) -> str:
    """Formats the status for a terminal."""
    lines = [f"cluster {status['name']}: {'stopping' if status['stopping'] else 'clients ask ' + status['listen']}"]
    for database in status["databases"]:
        qps, current = database["queries_per_second"], database["current"]
        load = "" if qps is None else f", {qps:.1f} queries a second, {database['waiting']} requests waiting"
        lines.append(f"{database['name']}: {f'answers with {current[:12]}' if current else 'does not answer'}{load}")
    rows = [_COLUMNS, *_rows(status)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"trouble: {trouble}" for trouble in _troubles(status)]
    return "\n".join(lines) + "\n"


_STYLE = """body{font:15px system-ui,sans-serif;margin:2rem;color:#222;background:#fff}
table{border-collapse:collapse}td,th{padding:.2rem .7rem;text-align:left;border-bottom:1px solid #ddd}
.ready{color:#060}.silent,.trouble{color:#a00}.placing,.starting,.draining{color:#850}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#151515}td,th{border-color:#333}
.ready{color:#7d7}.silent,.trouble{color:#f88}.placing,.starting,.draining{color:#eb6}}"""


def page(status: Mapping[str, Any]) -> str:
    """Formats the status as a page for browsers. It has no script, and reloads every five seconds."""
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f'<td class="{html.escape(row[5])}">{html.escape(cell)}</td>' for cell in row) + "</tr>"
        for row in _rows(status)
    )
    troubles = "".join(f'<p class="trouble">{html.escape(trouble)}</p>' for trouble in _troubles(status))
    first = text(status).partition("database")[0]
    name = html.escape(status["name"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>{name}</title>'
        f"<style>{_STYLE}</style><h1>{name}</h1><pre>{html.escape(first)}</pre>{troubles}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></html>"
    )


def gauges(status: Mapping[str, Any]) -> list[str]:
    """Returns the controller's own metrics, as pages."""
    counts: dict[tuple[str, str, str], float] = {}
    wanted = []
    for database in status["databases"]:
        for version in database["versions"]:
            labels = {"database": database["name"], "version": version["version"][:16]}
            wanted.append((labels, float(version["wanted"])))
            for share in version["shares"]:
                for replica in share["replicas"]:
                    key = (database["name"], version["version"][:16], replica["phase"])
                    counts[key] = counts.get(key, 0.0) + 1.0
    replicas = [({"database": d, "version": v, "phase": p}, count) for (d, v, p), count in sorted(counts.items())]
    return [
        scrape.gauge("spirea_cluster_replicas", "Workers by phase.", replicas),
        scrape.gauge("spirea_cluster_replicas_wanted", "Replicas that each share should have.", wanted),
        scrape.gauge(
            "spirea_cluster_trouble", "Whether the status names something that is wrong.",
            [({}, float(any(True for _ in _troubles(status))))],
        ),
    ]  # fmt: skip
