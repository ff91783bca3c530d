"""The parts of `arena.agents.backend_hf`: one running batch of a transformers network.

prefixes    keys and values of contexts that earlier requests left behind
network     a forward pass: masks, adapters row by row, evaluation mode
contexts    forwarding what is not known yet of new contexts
lanes       rows that grow by one token a step
running     requests join and leave the batch
"""
