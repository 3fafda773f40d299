-- KEYS: entry, leases, then what knows the requests of its user and of its session, where it has them.
-- ARGV: payload hash, payload, owner, now ms, lease until ms, deadline s, ttl s, member, then what is written there for
-- each, how long that is kept in s, and how many at most.
-- Gives {state, final}: "new" when this call made the entry.
-- A rejection that a retry can mend does not stand in the way of that retry.
local found = redis.call('HMGET', KEYS[1], 'state', 'payload_hash', 'final', 'retryable')
if found[1] and not (found[1] == 'final' and found[4] == '1') then
  if found[2] ~= ARGV[1] then
    return {'mismatch', ''}
  end
  return {found[1], found[3] or ''}
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'state', 'running', 'payload_hash', ARGV[1], 'payload', ARGV[2], 'owner', ARGV[3],
  'accepted_ms', ARGV[4], 'lease_ms', ARGV[5], 'deadline', ARGV[6], 'runs', 1)
redis.call('EXPIRE', KEYS[1], ARGV[7])
redis.call('ZADD', KEYS[2], ARGV[5], ARGV[8])
for i = 3, #KEYS do
  redis.call('ZADD', KEYS[i], ARGV[4], ARGV[9])
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', tonumber(ARGV[4]) - tonumber(ARGV[10]) * 1000)
  redis.call('ZREMRANGEBYRANK', KEYS[i], 0, -tonumber(ARGV[11]) - 1)
  redis.call('EXPIRE', KEYS[i], ARGV[10])
end
return {'new', ''}
