"""What `npm pack` makes, and what it is where it is installed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from runtimes import WITHOUT_VECTORS, InBrowser, Site, done, failed, printed_by, until
from servers import Server, value

ROOT = Path(__file__).resolve().parents[3]
CLIENT = ROOT / "clients" / "ts"


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
        assert all(file.is_file() for file in imports(script)), script
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


@pytest.mark.parametrize("vectors", [True, False])
def test_a_browser_has_the_module_that_fits_it(page: InBrowser, server: Server, vectors: bool) -> None:
    if not vectors:
        page.before_worker(WITHOUT_VECTORS)
    fetched: list[str] = []
    page.context.on("request", lambda request: fetched.append(request.url))
    done(page.call("connect", "client", server.url, {"database": "hybrid"}))
    assert done(page.call("lookUp", "client", ["key-5"]))["values"] == [value(5)]
    name = "spirea-simd.wasm" if vectors else "spirea.wasm"
    assert [url.rsplit("/", 1)[-1] for url in fetched if url.endswith(".wasm")] == [name]


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


@pytest.mark.parametrize("files", ["worker/web.js", "worker/line.js", "*.wasm"])
def test_a_page_that_does_not_have_all_files_is_told(page: InBrowser, server: Server, files: str) -> None:
    page.context.route(f"**/dist/{files}", lambda route: route.fulfill(status=404))
    error = failed(page.call("connect", "client", server.url, {"database": "simple"}), "no-worker")
    assert "policy" in error["message"]
    page.context.unroute(f"**/dist/{files}")
    done(page.call("connect", "client", server.url, {"database": "simple"}))


# What a page's policy lacks, and what its author is told of.
POLICIES = {
    "worker-src 'none'": "worker-src",
    "script-src 'self' 'unsafe-inline'": "'wasm-unsafe-eval'",
    "connect-src http:": None,
    "connect-src 'none'": "connect-src",
}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_that_has_no_room_for_the_client_is_named(browser: Browser, installed: Path, server: Server, policy: str) -> None:
    allowed = "default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; connect-src http:"
    with Site(installed, f"{allowed}; {policy}" if policy.startswith("worker") else replaced(allowed, policy)) as site:
        page = InBrowser(browser.new_context(), site)
        result = page.call("connect", "client", server.url, {"database": "simple"})
        named = POLICIES[policy]
        if named is None:
            done(result)
        else:
            assert named in failed(result, "no-worker")["message"]
        page.close()


def replaced(policy: str, directive: str) -> str:
    """The policy with another directive of that name."""
    name = directive.split()[0]
    return "; ".join(directive if part.split()[0] == name else part for part in policy.split("; "))


def test_halves_that_do_not_belong_together_end_the_client(page: InBrowser, server: Server) -> None:
    changes = page.site.changes
    changes["worker/line.js"] = lambda text: text.replace('received: "head"', 'received: "tail"')
    error = failed(page.call("connect", "client", server.url, {"database": "simple"}), "internal")
    assert "one version" in error["message"]
    changes.clear()
    done(page.call("connect", "client", server.url, {"database": "simple"}))
    # A trap in the middle of a look-up.
    changes["worker/instance.js"] = lambda text: text.replace("exports.look_up()", "exports.trap()")
    done(page.call("connect", "other", server.url, {"database": "simple"}))
    for _ in range(2):
        failed(page.call("lookUp", "other", ["key-5"]), "internal")
    # Its worker is gone, and what is secret with it.
    until(lambda: page.call("told") is not None and len(page.page.workers) == 1)
    assert done(page.call("lookUp", "client", ["key-5"]))["values"] == [value(5)]


# Computation of the package's on the page's own thread would be by the compiled client, or by what it is made of.
NOTHING_COMPILED = """
    for (const name of ["compile", "compileStreaming", "instantiate", "instantiateStreaming", "Module", "Instance"]) {
        Object.defineProperty(WebAssembly, name, { get() { throw new Error(`the page asks for ${name}`); } });
    }
    crypto.getRandomValues = () => { throw new Error("the page draws randomness"); };
"""


def test_nothing_is_computed_on_the_page_s_thread(browser: Browser, site: Site, server: Server) -> None:
    context = browser.new_context()
    context.add_init_script(NOTHING_COMPILED)
    page = InBrowser(context, site)
    for _ in ("a hint that is fetched, keys that are made", "both from IndexedDB"):
        for name in ("simple", "hybrid"):
            standing = done(page.call("connect", name, server.url, {"database": name, "keep": "persistent"}))
            assert standing["storage"]["kind"] == "indexeddb"
            assert done(page.call("lookUp", name, ["key-5", "none"]))["values"] == [value(5), None]
            done(page.call("close", name))
        page.reload()
    page.close()


def test_no_module_of_the_page_is_one_of_the_worker(installed: Path) -> None:
    dist = installed / "node_modules" / "spirea" / "dist"
    reached = {dist / "browser.js"}
    while found := {imported for script in reached for imported in imports(script)} - reached:
        reached |= found
    assert dist / "client.js" in reached
    for script in reached:
        assert script.parent == dist and "WebAssembly" not in script.read_text(), script


def imports(script: Path) -> list[Path]:
    """The files of the package that a script imports."""
    lines = [line for line in script.read_text().splitlines() if ' from ".' in line]
    return [(script.parent / line.split('"')[1]).resolve() for line in lines]
