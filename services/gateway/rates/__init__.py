"""Admission by how much is asked and how the engines bear it: pure policies, each with a clock that it is given.

rate          requests a second, of one tenant or of all: a limit that follows the last minute
tenant_rates  a limit for each tenant, and one for all together
exchange      tells the other gateways what has come here, and hears it from them
utilization   how much work engines have had over time
heat          how much work a hot device still gets
guards        the three together: may this request come in
sampler       reads what the engines say of themselves, once a second
"""
