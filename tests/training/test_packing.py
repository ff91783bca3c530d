"""Token trees: whatever the sequences, each trained token is predicted from exactly its own prefix."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arena.training.packing import pack
from arena.training.sequences import TrainingSequence

# Three ids make shared prefixes, whole prefixes and equal sequences common.
streams = st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=8), min_size=1, max_size=12)


def sequence(ids, data):
    positions = data.draw(st.sets(st.integers(1, len(ids) - 1), min_size=1))
    return TrainingSequence(ids, sorted(positions), None, [0] * len(positions), "a", "e", 1)


@given(streams, st.sampled_from([1, 12, 40, 1000]), st.booleans(), st.data())
def test_every_trained_token_sees_its_prefix(ids, budget, trees, data):
    sequences = [sequence(one, data) for one in ids]
    tokens = [(one, position) for one in sequences for position in one.positions]
    seen = []
    for part in pack(sequences, budget=budget, trees=trees):
        rows, width = part.ids_RM.shape
        assert rows == 1 or rows * width <= budget
        mask_RMM = part.mask_RMM
        if mask_RMM is None:
            mask_RMM = np.broadcast_to(np.tri(width, dtype=bool), (rows, width, width))
        for token, node in zip(part.tokens_N.tolist(), part.nodes_N.tolist(), strict=True):
            row, column = divmod(node, width)
            visible = np.flatnonzero(mask_RMM[row, column])
            one, position = tokens[token]
            assert part.ids_RM[row, visible].tolist() == one.ids[:position]
            if part.mask_RMM is not None:
                assert part.depths_RM[row, visible].tolist() == list(range(position))
            seen.append(token)
    assert sorted(seen) == list(range(len(tokens)))


def test_a_group_of_rollouts_shares_its_prompt():
    prompt = list(range(20))
    rollouts = [TrainingSequence([*prompt, 30 + i, 40, 50], [20, 22], None, [0, 1], "a", str(i), 20) for i in range(8)]
    (one,) = pack(rollouts, budget=1000)
    assert one.ids_RM.shape == (1, 20 + 8 * 2)
