"""What `stagemesh doctor` looks at.

finding.py    one thing it found
machine.py    interpreter, processor, memory, disk, clock, limits
software.py   packages, torch build, models, embedded servers
network.py    ports, configured Redis and Kafka
checks.py     all checks in order
"""
