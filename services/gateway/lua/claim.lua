-- KEYS: entry, leases.  ARGV: owner, now ms, lease until ms, member, wanted state ("deferred" or "running").
-- Gives {state, payload, payload hash, deadline, final, runs}: "claimed" when the caller now owns the entry.
local found = redis.call('HMGET', KEYS[1], 'state', 'payload', 'deadline', 'final', 'lease_ms', 'payload_hash')
if not found[1] then
  return {'absent', '', '', '', '', 0}
end
local free = found[1] == 'deferred' and ARGV[5] == 'deferred'
local lapsed = found[1] == 'running' and tonumber(found[5]) <= tonumber(ARGV[2])
if not (free or lapsed) then
  return {found[1], '', '', found[3] or '', found[4] or '', 0}
end
redis.call('HSET', KEYS[1], 'state', 'running', 'owner', ARGV[1], 'lease_ms', ARGV[3])
local runs = redis.call('HINCRBY', KEYS[1], 'runs', 1)
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
return {'claimed', found[2], found[6], found[3], '', runs}
