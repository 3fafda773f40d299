-- KEYS: entry, leases, dead letters.
-- ARGV: owner (empty: anybody), member, outcome, final, now ms, ttl s, retryable, most dead letters (0: it is none),
-- ttl s where its user was erased meanwhile.
-- Gives 1 when this call made the final transition. An entry that a crash of Redis lost is made anew.
-- A dead letter keeps its payload, so that an operator can have it run again.
local found = redis.call('HMGET', KEYS[1], 'state', 'owner', 'erased')
if found[1] == 'final' then
  return 0
end
if ARGV[1] ~= '' and found[1] and found[2] ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'final', 'outcome', ARGV[3], 'final', ARGV[4], 'finished_ms', ARGV[5], 'owner', '',
  'retryable', ARGV[7])
redis.call('EXPIRE', KEYS[1], found[3] and ARGV[9] or ARGV[6])
redis.call('ZREM', KEYS[2], ARGV[2])
if ARGV[8] == '0' or found[3] then
  redis.call('HDEL', KEYS[1], 'payload')
else
  redis.call('ZADD', KEYS[3], ARGV[5], ARGV[2])
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', tonumber(ARGV[5]) - tonumber(ARGV[6]) * 1000)
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -tonumber(ARGV[8]) - 1)
  redis.call('EXPIRE', KEYS[3], ARGV[6])
end
return 1
