"""From a model's files to the tensors of a decoder."""
