"""Which adapters judge content for whom: the present one, a candidate beside it, and what is counted of both."""
