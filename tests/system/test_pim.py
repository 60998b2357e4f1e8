"""Test that the device program of processing in memory compiles for riscv32 (docs/protocols/pim.md)."""

import pytest

import pim_image


@pytest.mark.needs("clang")
def test_device_program_compiles(tmp_path):
    pim_image.compile_program(tmp_path)
