"""A second generator of cases, written apart from the rules: templates of several styles, with asides that distract."""
