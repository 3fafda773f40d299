"""Whether the values of an object are what a prose source says, and what it says instead."""
