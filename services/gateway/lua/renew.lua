-- KEYS: entry, leases.  ARGV: owner, lease until ms, member.  Gives 1 when a cancellation was asked for.
local found = redis.call('HMGET', KEYS[1], 'state', 'owner', 'cancel')
if found[1] ~= 'running' or found[2] ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'lease_ms', ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
return found[3] and 1 or 0
