"""The model's operations in two forms behind one signature: `reference` defines them, `torch_forms` is what runs."""
