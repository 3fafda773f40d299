-- Sets what the scripts go by. ARGV: ttl_s, then names and values.
redis.call('DEL', LIMITS)
redis.call('HSET', LIMITS, unpack(ARGV, 2))
redis.call('EXPIRE', LIMITS, ARGV[1])
return 1
