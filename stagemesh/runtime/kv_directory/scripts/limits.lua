-- Sets what the scripts go by. ARGV: ttl_s, then names and values.
if redis.call('TYPE', SPACES).ok ~= 'zset' then redis.call('DEL', SPACES) end
redis.call('DEL', LIMITS)
redis.call('HSET', LIMITS, unpack(ARGV, 2))
redis.call('EXPIRE', LIMITS, ARGV[1])
return 1
