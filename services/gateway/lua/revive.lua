-- KEYS: entry, dead letters.  ARGV: member, expires s, ttl s.
-- Gives 1 when a dead letter is deferred again: an operator's decision, and the only way out of a final state.
local found = redis.call('HMGET', KEYS[1], 'state', 'outcome', 'payload')
if found[1] ~= 'final' or found[2] ~= 'OUTCOME_DEAD_LETTERED' or not found[3] then
  return 0
end
redis.call('HDEL', KEYS[1], 'outcome', 'final', 'finished_ms', 'retryable', 'cancel')
redis.call('HSET', KEYS[1], 'state', 'deferred', 'owner', '', 'deadline', ARGV[2], 'runs', 0)
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
