"""Made-up business objects, with prose of several styles that says them, and asides that distract."""
