"""The supervisor: one process that starts, watches, restarts and stops all the others of a mesh.

settings.py      what can be configured about supervision
options.py       what the caller of `stagemesh up` asked for
state_dir.py     where a mesh keeps its files
mesh_file.py     `mesh.json`: ports, token, who runs; the command reads it, the supervisor alone writes it
ports.py         free ports that stay the same from one start to the next
mesh_settings.py all configuration, checked before anything starts
plan.py          configuration → the list of processes (spec.py), with their environments
servers.py       the embedded Redis and Kafka servers as entries of that list
probe.py         is a process alive, is it ready
process.py       the life of one process: start → ready → exit → back off → start
supervisor.py    all processes: order of start and stop, record of states
launcher.py      runs in each child: dies with the supervisor (Linux)
guardian.py      ends the children of a supervisor that died (elsewhere)
log_file.py      logs that rotate by size
"""
