"""A server that fails on demand, and a model that every backend can serve."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def faults() -> ModuleType:
    """The module `fault_server`: answers to put into a server's script."""
    import fault_server

    return fault_server


@pytest.fixture(scope="session")
def shared() -> ModuleType:
    """The module `letters`: a chat model that every backend can serve."""
    import letters

    return letters


@pytest.fixture(scope="session")
def vllm(shared: Any) -> Iterator[Any]:
    """An engine of vLLM for that model, which takes half a minute to start: the one of all tests."""
    from arena.agents.backend_vllm import vllm_backend

    kept = vllm_backend(shared.letters(lora=1), "kept@v0")
    yield kept.engine
    shared.close_engine(kept.engine)


@pytest.fixture(scope="session")
def servers() -> ModuleType:
    """The module `vllm_servers`: servers that speak as ``vllm serve`` does."""
    import vllm_servers

    return vllm_servers


@pytest.fixture
def stand_in(servers: Any, shared: Any) -> Iterator[tuple[Any, str]]:
    """A `vllm_servers.StandIn` for the model `letters`, and its address."""
    with servers.standing_in(shared.letters(), shared.letters(lora=0)) as running:
        yield running


@pytest.fixture(scope="session")
def vllm_server(servers: Any, shared: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of ``vllm serve`` for the model `letters`: the one of all tests."""
    with servers.serving(shared.letters(lora=1), tmp_path_factory.mktemp("vllm") / "log") as url:
        yield url


@pytest.fixture
def server(faults: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A `fault_server.FaultServer` of this test."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = faults.FaultServer()
    yield running
    running.close()
