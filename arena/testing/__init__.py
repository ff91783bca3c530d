"""Conformance checks that users run on their own backends, agents, judges, protocols and schedules, in their own
tests.

    from arena.testing import check_backend, check_protocol

    def test_my_backend() -> None:
        check_backend(MyBackend(), contexts=[[1, 5], [1, 5, 7, 9]])

    def test_my_protocol() -> None:
        check_protocol("my-protocol.yaml")

Each check raises AssertionError with the promise that was broken.
"""

from arena.testing.agents import check_agent
from arena.testing.backends import check_backend
from arena.testing.judges import check_judge
from arena.testing.protocols import check_protocol, made_up_tasks
from arena.testing.schedules import check_schedule

__all__ = ["check_agent", "check_backend", "check_judge", "check_protocol", "check_schedule", "made_up_tasks"]
