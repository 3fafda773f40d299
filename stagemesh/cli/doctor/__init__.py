"""What `stagemesh doctor` looks at.

finding.py    one thing it found
machine.py    interpreter, processor, memory, disk, clock, limits
software.py   models, embedded servers
engine.py     instruction set, compiler, torch, and the backend that follows from them
network.py    ports, configured Redis and Kafka
checks.py     all checks in order
"""
