"""Mending the form of a JSON text: reading what is nearly JSON, and giving values the types that a schema asks for."""
