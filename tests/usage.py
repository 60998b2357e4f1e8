"""Measures the CPU time of the processes that the runners start."""

import os


def wait(process):
    """Waits for a process. Returns its exit code, and its CPU seconds, including those of the children that it waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime
