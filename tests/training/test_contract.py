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
        "OptimizerConfig",
        "Recipe",
        "SelfPlay",
        "TrainingSequence",
        "assign_advantages",
        "build_world",
        "credit",
        "group_advantages",
        "load_recipe",
        "sequences_of",
    ]
    assert all(callable(getattr(arena.training, name)) for name in arena.training.__all__)


def test_reading_and_checking_recipes_imports_no_torch():
    code = (
        "import sys, arena.training; arena.training.LearnerConfig(); arena.training.load_recipe('digits');"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
