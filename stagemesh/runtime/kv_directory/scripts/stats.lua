-- ARGV: namespace. Gives {bytes, pages, sums as a flat list, bytes of all, namespaces, total and tenant budget}.
local space = ARGV[1]
mend_index(space)
sweep(space, MAX_SWEPT)
return {
  whole(used(space)),
  redis.call('HLEN', space .. 'pages'),
  redis.call('HGETALL', space .. 'sums'),
  redis.call('GET', BYTES) or '0',
  redis.call('ZCARD', SPACES),
  whole(limit('total_bytes')),
  whole(limit('tenant_bytes')),
}
