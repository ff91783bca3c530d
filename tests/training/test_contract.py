"""The public face of arena.training, and that it stays light."""

import subprocess
import sys

import arena.training


def test_public_names():
    assert sorted(arena.training.__all__) == [
        "KLConfig",
        "KLController",
        "Learner",
        "LearnerConfig",
        "ObjectiveConfig",
        "TrainingSequence",
        "assign_advantages",
        "credit",
        "group_advantages",
        "sequences_of",
    ]
    assert all(callable(getattr(arena.training, name)) for name in arena.training.__all__)


def test_reading_a_config_imports_no_torch():
    code = "import sys, arena.training; arena.training.LearnerConfig(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
