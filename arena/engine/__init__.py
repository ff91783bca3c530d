"""The engine: walks episodes of a protocol, superstep by superstep, many at a time.

    engine = Engine(protocol, judges, seed=0)
    for episodes in engine.stream(Plan(key, task, lineup) for key, task in ...):
        ...

A `game` is one episode and does nothing by itself: the `move` of each ready node hands out requests (`requests`; the
kinds are `speaking`, `programs`, `counting` and `rating`), and the `driver` has them answered, in batches or `afar`.
What stands of an episode, and who may know what of it, is its `transcript` (`hearing`); what all episodes share stands
in the `house`, what a role sees of a task in `tables`, what ``NODE.field`` means in `names`.

What an episode becomes depends only on (protocol, task, lineup, sides, seed, weights): concurrency changes nothing but
time, and the last bits of a model's log-probs in float32.
"""

from arena.engine.engine import Engine
from arena.engine.plan import AnyAgent, Plan
from arena.engine.speaking import sampled_tokens

__all__ = ["AnyAgent", "Engine", "Plan", "sampled_tokens"]
