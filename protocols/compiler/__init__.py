"""From protocol files to a compiled `Protocol`: one file here for each part of the language.

build       all of it, in order                     moves       nodes as the file has them
sources     files that name each other              targets     what a node is about
scope       a file in its place, and its faults     speech      what only speakers have
settings    params, fields, lists                   ratings     who rates candidates
roles       who takes part                          decisions   votes, selections, computations
links       edges as the file has them              nodes       the nodes that the engine walks
nesting     what `use` unfolds to                   edges       the edges that the engine walks
references  what names of nodes mean                rewards     what is paid
given       what nodes give                         walk        who can meet whom in a superstep
audience    who reads each node
reading     who may be shown what                   values      expressions
prompts     what templates may show                 shapes      one node, or several
"""
