-- Ends or prolongs a lock, if it still is the caller's. KEYS: lock. ARGV: token, ttl_ms (0 ends it). Gives 1 or 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
