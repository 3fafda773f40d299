"""Seeded cases whose content differs from a prose source: business objects, their tellings, and what goes wrong."""
