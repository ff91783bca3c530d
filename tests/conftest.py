"""One thread, no network, no user's home: tests give the same result on every machine."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# What several tests need, in modules that they import by name: tests are no package.
sys.path.insert(0, str(Path(__file__).with_name("shared")))

# The number of threads changes the order of floating-point sums, and with it results. Subprocesses inherit it.
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("COLUMNS", "120")  # rich wraps help and tables at the width of the terminal
for _name in ("FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE"):
    os.environ.pop(_name, None)
# SmolLM2 is converted once and kept; where HOME cannot be written, beside the other temporary files.
if "XDG_CACHE_HOME" not in os.environ and not os.access(Path.home(), os.W_OK):
    os.environ["XDG_CACHE_HOME"] = str(Path(tempfile.gettempdir()) / f"debate-arena-cache-{os.getuid()}")

# The same examples in every run, and no verdict that depends on how busy the machine is.
settings.register_profile("arena", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("arena")

# A shell may start background jobs with SIGINT ignored, which children inherit; tests of Ctrl-C need the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Markers are known here and not in pyproject.toml, so that the tests also run beside an installed wheel alone."""
    config.addinivalue_line("markers", "slow: takes more than a few seconds; run by default, left out by -m 'not slow'")
    config.addinivalue_line("markers", "vllm: needs vLLM, and is skipped where that is not installed (make test-vllm)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs vLLM where there is none."""
    if importlib.util.find_spec("vllm") is None:
        for item in items:
            if item.get_closest_marker("vllm"):
                item.add_marker(pytest.mark.skip(reason="needs vLLM: make test-vllm"))
