"""Seeded cases for the correction benchmark: business objects broken in known ways."""
