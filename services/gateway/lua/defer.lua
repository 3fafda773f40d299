-- KEYS: entry, leases.  ARGV: owner, member, expires s, ttl s.  Gives 1 when the entry is now deferred.
local found = redis.call('HMGET', KEYS[1], 'state', 'owner')
if found[1] ~= 'running' or found[2] ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'deferred', 'owner', '', 'deadline', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'runs', -1) -- it waits, which is no run
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('ZREM', KEYS[2], ARGV[2])
return 1
