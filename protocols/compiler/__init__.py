"""From protocol files to a compiled `Protocol`: one file here for each part of the language.

sources   files that name each other          roles     who takes part
scope     a file in its place, its faults     moves     the nodes of a file, before they are made
settings  params, fields, lists               links     the edges of a file, and which params rule out
nesting   what ``use`` unfolds to             given     what nodes give to expressions and templates
prompts   templates, and who may read what    nodes     the nodes that the engine walks
values    expressions                         rewards   what is paid
walk      who can meet whom in a superstep    build     all of it, in order
"""
