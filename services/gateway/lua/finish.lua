-- KEYS: entry, leases.  ARGV: owner (empty: anybody), member, outcome, final, now ms, ttl s, retryable.
-- Gives 1 when this call made the final transition. An entry that a crash of Redis lost is made anew.
local found = redis.call('HMGET', KEYS[1], 'state', 'owner')
if found[1] == 'final' then
  return 0
end
if ARGV[1] ~= '' and found[1] and found[2] ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'final', 'outcome', ARGV[3], 'final', ARGV[4], 'finished_ms', ARGV[5], 'owner', '',
  'retryable', ARGV[7])
redis.call('HDEL', KEYS[1], 'payload')
redis.call('EXPIRE', KEYS[1], ARGV[6])
redis.call('ZREM', KEYS[2], ARGV[2])
return 1
