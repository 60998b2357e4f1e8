"""What `npm pack` makes, and what it is where it is installed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from runtimes import InBrowser, done, failed
from servers import Server, value

ROOT = Path(__file__).resolve().parents[3]
CLIENT = ROOT / "clients" / "ts"


def printed_by(program: str, folder: Path) -> str:
    """What a program prints that ends by itself, without a complaint."""
    command = ["node", "--input-type=module", "-e", program]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    return ended.stdout.strip()


def test_the_package_has_what_it_needs_and_nothing_else(installed: Path) -> None:
    package = installed / "node_modules" / "spirea"
    files = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    assert {"package.json", "README.md", "LICENSE", "dist/browser.js", "dist/node.js", "dist/browser.d.ts", "dist/node.d.ts",
            "dist/spirea.wasm", "dist/spirea-simd.wasm", "dist/worker/web.js", "dist/worker/thread.js"} <= files
    others = {file for file in files if not file.endswith((".js", ".d.ts", ".wasm"))}
    assert others == {"package.json", "README.md", "LICENSE"}
    assert not any("demo" in file or "test" in file for file in files)
    about = json.loads((package / "package.json").read_text())
    assert about["name"] == "spirea" and about["type"] == "module" and not about.get("dependencies")
    # No other package was installed with it.
    assert [path.name for path in (installed / "node_modules").iterdir() if not path.name.startswith(".")] == ["spirea"]
    # Every import is of a file that is there.
    for script in package.rglob("*.js"):
        for line in script.read_text().splitlines():
            if " from \"." in line:
                assert (script.parent / line.split('"')[1]).is_file(), line
    # Nothing of the machine that compiled it.
    for module in package.rglob("*.wasm"):
        assert str(Path.home()).encode() not in module.read_bytes() and str(ROOT).encode() not in module.read_bytes()


@pytest.mark.parametrize("resolution", [["--module", "nodenext"], ["--module", "esnext", "--moduleResolution", "bundler"]])
def test_its_types_hold_in_a_program_that_is_compiled_strictly(installed: Path, tmp_path: Path, resolution: list[str]) -> None:
    compiler = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
    # Without those of Node.
    types = ["--lib", "es2022,dom", "--typeRoots", str(tmp_path)]
    command = ["node", compiler, "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--target", "es2022", *types, *resolution]
    compiled = subprocess.run([*command, "consumer.ts"], cwd=installed, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stdout


def test_a_program_ends_though_a_client_is_open(installed: Path, server: Server) -> None:
    program = f"""
        import {{ Client }} from "spirea";
        const client = await Client.connect("{server.url}", {{ database: "simple" }});
        console.log((await client.get("key-5")).text("note"), await client.get("none"));
    """
    assert printed_by(program, installed) == "note of 5 undefined"


def test_a_browser_without_vectors_has_the_other_module(page: InBrowser, server: Server) -> None:
    fetched: list[str] = []
    page.context.on("request", lambda request: fetched.append(request.url))
    done(page.call("connect", "client", server.url, {"database": "hybrid"}))
    assert [url.rsplit("/", 1)[-1] for url in fetched if url.endswith(".wasm")] == ["spirea-simd.wasm"]


def test_the_module_without_vectors_answers_alike(installed: Path, server: Server, tmp_path: Path) -> None:
    # A machine that says of every module with vectors that it is none.
    program = f"""
        const validate = WebAssembly.validate;
        const {{ Engine }} = await import("{installed}/node_modules/spirea/dist/worker/engine.js");
        const {{ moduleUrl }} = await import("{installed}/node_modules/spirea/dist/worker/instance.js");
        WebAssembly.validate = () => false;
        const url = moduleUrl();
        const {{ readFile }} = await import("node:fs/promises");
        const module = await WebAssembly.compile(await readFile(url));
        const replies = [];
        const engine = new Engine({{ module: async () => module, place: () => undefined, reply: (reply) => take(reply) }});
        let take;
        const answered = (call) => new Promise((resolve) => {{
            take = (reply) => (reply.reply === "done" || reply.reply === "failed") && resolve(reply);
            engine.call(call);
        }});
        const settings = {{ addresses: [["{server.url}/"]], database: "hybrid", timeout: 60000, maxHintBytes: 1e9,
                            acceptWeakPrf: false, keep: "memory", keepKeys: false, shown: false }};
        await answered({{ call: "connect", id: 0, settings }});
        const wanted = {{ keys: [new TextEncoder().encode("key-5")] }};
        const {{ found }} = await answered({{ call: "lookUp", id: 1, wanted, fetch: false }});
        console.log(url.pathname.split("/").at(-1), new TextDecoder().decode(found.outcomes[0].value[0]));
    """
    assert printed_by(program, installed) == f"spirea.wasm {value(5)[0]}"


def test_a_page_whose_policy_has_no_room_for_the_worker_is_told(page: InBrowser, server: Server) -> None:
    page.page.route("**/worker/web.js", lambda route: route.fulfill(status=404))
    failed(page.call("connect", "client", server.url, {"database": "simple"}), "no-worker")
    page.page.unroute("**/worker/web.js")
    done(page.call("connect", "client", server.url, {"database": "simple"}))
