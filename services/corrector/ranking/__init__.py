"""What the rules leave open, a model ranks: which of a source's values belongs to a field, by likelihood."""
