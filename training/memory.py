"""How much memory this process has taken."""

from __future__ import annotations

import sys

__all__ = ["peak_memory_mb"]


def peak_memory_mb() -> float:
    """Largest resident size of this process so far, in MB (10^6 bytes); NaN where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6
