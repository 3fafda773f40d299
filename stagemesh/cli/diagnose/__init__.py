"""`stagemesh diagnose`: is it the model, the infrastructure or the network?

evidence.py    what was observed, without a judgement
machine.py     configuration, names, ports, state folder
stores.py      Redis: answers, delay, clock, writes; the broker
processes.py   the mesh's processes: state, last words, health
engines.py     engines and tokenizer asked for a little work; who waits
weights.py     the files of the models
gather.py      all of it at once, each look bounded
causes.py      what can be wrong, and what to do about each
rules.py       from the evidence to causes, the root first (pure)
"""
