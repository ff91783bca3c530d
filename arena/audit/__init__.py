"""Measuring a judge: what it gets right, how sure it may be, and what moves it that should not.

    config = AuditConfig("llm:model=smollm2", tasks="reading", sees=("passage",))
    result = run_audit(config, Path("runs/audit"), created="2026-12-01")

Biases are causal contrasts: each case is shown several times with one thing changed, and the change in what is chosen
is the bias (`arena.audit.effects`).
"""

from arena.audit.audit import AuditConfig, run_audit
from arena.audit.report import report_audit

__all__ = ["AuditConfig", "report_audit", "run_audit"]
