"""Forks, interrupts and exits of the interpreter during calls: typed exceptions, no crash and no hang."""

import os
import signal
import subprocess
import sys
import threading

import pytest

import spirea

# A server that accepts connections and never answers, for clients that wait.
SILENT = """
import asyncio, socket, sys, threading, spirea
silent = socket.create_server(("127.0.0.1", 0))
url = f"http://127.0.0.1:{silent.getsockname()[1]}"
"""


def in_child(function):
    """Runs `function` in a forked child, and returns its result or exception as text. It must end within five minutes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = function()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, str(said).encode())
        os._exit(0)
    os.close(writer)
    deadline = threading.Timer(300, os.kill, (child, signal.SIGKILL))
    deadline.start()
    with os.fdopen(reader) as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    deadline.cancel()
    assert status == 0, status
    return said


def test_a_fork_with_a_live_client(keyed, keyed_server):
    with spirea.Client(keyed_server) as client:
        assert in_child(lambda: client.get("k1")).startswith("ForkError: this client belongs to process")
        # Objects that the child creates work there, although its parent has servers and clients.
        assert in_child(lambda: spirea.Client(keyed_server.url, "keyed").get("k1").text("a")) == "a1"
        assert client.get("k2").text("a") == "a2"


def test_a_fork_with_a_live_server(keyed, keyed_server):
    assert in_child(keyed_server.stop).startswith("ForkError: this server belongs to process")
    assert in_child(lambda: spirea.Server(keyed)).startswith("ForkError")

    def of_its_own():
        with spirea.ServerProcess(keyed) as server:
            return spirea.Client(server).get("k1").text("a")

    assert in_child(of_its_own) == "a1"


def test_a_build_in_a_child_whose_parent_has_built(keyed):
    assert in_child(lambda: spirea.build({"v": ["a", "b"]}).rows) == "2"


def test_a_fork_with_a_client_for_asyncio(keyed_server):
    import asyncio

    async def both():
        async with spirea.AsyncClient(keyed_server) as client:
            said = in_child(lambda: client._core.look_up_keys([b"k1"]))
            return said, (await client.get("k1")).text("a")

    said, value = asyncio.run(both())
    assert said.startswith("ForkError") and value == "a1"


# Prints "ready" when the client has connected.
ACCEPTING = (
    SILENT
    + """
threading.Thread(target=lambda: (silent.accept(), print("ready", flush=True)), daemon=True).start()
"""
)


def interrupted(text, *arguments):
    """Runs a program and interrupts it when it prints "ready". Returns its exit code, output and errors."""
    program = subprocess.Popen(
        [sys.executable, "-c", text, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout.readline() == "ready\n"
    program.send_signal(signal.SIGINT)
    out, error = program.communicate(timeout=300)
    return program.returncode, out, error


def test_a_child_that_exits_leaves_its_parent_what_it_has(script):
    """A child that exits normally, and not by `os._exit`, runs the exit handlers. These must not affect the parent."""
    done = script(
        """
import os, sys, spirea
snapshot = spirea.build({"v": ["a", "b"]})
process = spirea.ServerProcess(snapshot)
server = spirea.Server(snapshot)
child = os.fork()
if child == 0:
    process.stop()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert os.path.isdir(snapshot) and os.path.isfile(process.log)
print([spirea.Client(each).get_index(1).text() for each in (process, server)])
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "['b', 'b']\n", "")


def test_a_child_that_exits_while_a_call_of_its_parent_is_in_flight(script):
    """The call's thread does not exist in the child, which must neither wait for it nor ask for its progress."""
    # A child that waits would take two seconds each time. Even on a busy machine one of three children is quicker.
    done = script(
        "import atexit, os, time\natexit.register(lambda: print(time.monotonic() - stopped, flush=True))\n"
        + SILENT
        + """
def stopping():
    global stopped
    stopped = time.monotonic()
atexit.register(stopping)
job = spirea.AsyncClient(url, "table", timeout=3600)._connecting()
silent.accept()
waiting = threading.Thread(target=job.wait, daemon=True)
waiting.start()
# The thread is within the call then. On a slower machine it is not yet, and the test checks less.
time.sleep(0.2)
for _ in range(3):
    child = os.fork()
    if child == 0:
        for ask in (job.is_done, job.progress, job.wait, job.take, job.fileno):
            try:
                ask()
            except spirea.ForkError:
                print("fork", flush=True)
        sys.exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.split()
    seconds = [float(each) for each in said[5::7]]
    assert said == [each for took in said[5::7] for each in [*["fork"] * 5, took, "0"]] and len(seconds) == 3
    assert min(seconds) < 1


def test_ctrl_c_ends_a_look_up():
    text = (
        ACCEPTING
        + """
try:
    spirea.Client(url, "table", timeout=3600)
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    assert interrupted(text)[:2] == (0, "interrupted\n")


def test_ctrl_c_ends_a_look_up_for_asyncio():
    text = (
        ACCEPTING
        + """
async def connect():
    await spirea.AsyncClient(url, "table", timeout=3600).connect()
try:
    asyncio.run(connect())
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    assert interrupted(text)[:2] == (0, "interrupted\n")


def test_ctrl_c_ends_a_build_and_leaves_nothing(tmp_path):
    text = """
import sys, numpy, spirea
table = numpy.zeros((1 << 22, 64), numpy.uint8)
def ready(phase, done, total, said=[]):
    if not said:
        said.append(print("ready", flush=True))
try:
    spirea.build(table, sys.argv[1] + "/out", progress=ready)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert interrupted(text, str(tmp_path))[:2] == (0, "interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_ctrl_c_ends_a_measurement():
    text = """
import spirea
def ready(phase, done, total, said=[]):
    if not said:
        said.append(print("ready", flush=True))
try:
    while True:
        spirea.measure_rates(threads=1, progress=ready)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert interrupted(text)[:2] == (0, "interrupted\n")


@pytest.mark.parametrize("daemon", [True, False])
def test_the_interpreter_exits_in_the_middle_of_a_query_of_a_thread(script, daemon):
    done = script(
        SILENT
        + f"""
def ask():
    try:
        spirea.Client(url, "table", timeout={3600 if daemon else 0.5}, attempts=1)
    except spirea.SpireaError as error:
        print(type(error).__name__, flush=True)
thread = threading.Thread(target=ask, daemon={daemon})
thread.start()
silent.accept()
"""
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    # A daemon thread is stopped, perhaps before it has printed. The interpreter waits for other threads, which end by
    # themselves.
    assert done.stdout.strip() in (("StoppedError", "") if daemon else ("UnreachableError",))


def test_the_interpreter_exits_in_the_middle_of_a_query_for_asyncio(script):
    done = script(
        SILENT
        + """
async def ask():
    connecting = asyncio.ensure_future(spirea.AsyncClient(url, "table", timeout=3600).connect())
    silent.setblocking(False)
    await asyncio.get_running_loop().sock_accept(silent)
    sys.exit(7)
asyncio.run(ask())
"""
    )
    assert done.returncode == 7, done.stderr


def test_the_interpreter_exits_with_everything_alive(script, keyed):
    done = script(
        """
import sys, spirea
server = spirea.Server(sys.argv[1])
client = spirea.Client(server)
process = spirea.ServerProcess(sys.argv[1])
print(client.get("k1").text("a"))
""",
        keyed.path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "a1\n", "")


def test_a_thread_waits_without_the_lock(relay):
    """The proxy between client and server is Python code in this process, which runs while the client waits."""
    with spirea.Client(relay.url, "keyed", timeout=300, attempts=1) as client:
        assert client.get("k1").text("a") == "a1"


def test_two_calls_are_in_flight_at_the_same_time(relay):
    """The proxy lets queries through only when two are there, one of each thread."""
    clients = [spirea.Client(relay.url, "keyed", timeout=300, attempts=1) for _ in range(2)]
    both = threading.Barrier(2, timeout=300)
    relay.before_query = lambda _: both.wait()
    found = {}
    threads = [
        threading.Thread(target=lambda client=client: found.update({client: client.get("k1").text("a")})) for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == ["a1", "a1"] and not both.broken


def test_a_defect_is_an_exception(monkeypatch):
    job = spirea._spirea.Rates.measure(1)
    with pytest.raises(spirea.DefectError, match="not done"):
        job.take()
    job.stop()
