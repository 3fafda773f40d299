"""The outbox's state changes, each one atomic Lua script. All keys of an outbox share one hash slot.

bodies  hash  id → serialized envelope (or a small one that refers to `body`)
order   zset  id → rank: higher priority first, then older first; holds every entry
expiry  zset  id → when the entry is too old to be worth doing, Unix ms
due     zset  id → when a published entry is published again, Unix ms; an entry that is not in it waits
tries   hash  id → how often it was published
since   zset  id → when it was put, Unix ms

Times are the server's, so that relays need no common clock.
"""

NOW_MS = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
"""

# KEYS: bodies order expiry due tries since [body]
# ARGV: id, record, priority, ttl_ms, keep_ms, max_entries (0: no limit here), body
PUT = (
    NOW_MS
    + """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 1 end
local max = tonumber(ARGV[6])
if max > 0 and redis.call('HLEN', KEYS[1]) >= max then return 0 end
if KEYS[7] then redis.call('SET', KEYS[7], ARGV[7], 'PX', ARGV[5]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], now - tonumber(ARGV[3]) * 4398046511104, ARGV[1])
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[4]), ARGV[1])
redis.call('ZADD', KEYS[6], now, ARGV[1])
for i = 1, 6 do
  if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[5]) then redis.call('PEXPIRE', KEYS[i], ARGV[5]) end
end
return 1
"""
)

# KEYS: bodies order expiry due tries since body
# ARGV: id
REMOVE = """
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('HDEL', KEYS[5], ARGV[1])
redis.call('ZREM', KEYS[6], ARGV[1])
redis.call('DEL', KEYS[7])
return redis.call('HDEL', KEYS[1], ARGV[1])
"""

# KEYS: bodies order expiry due tries
# ARGV: limit, window, republish_ms, max_backoff_doublings, keep_ms
# Gives id, tries, record, id, tries, record, …
CLAIM = (
    NOW_MS
    + """
local room = tonumber(ARGV[2]) - redis.call('ZCOUNT', KEYS[4], '(' .. now, '+inf')
local wanted = math.min(tonumber(ARGV[1]), room)
local claimed, at = {}, 0
while wanted > 0 do
  local ids = redis.call('ZRANGE', KEYS[2], at, at + 127)
  if #ids == 0 then break end
  at = at + #ids
  for _, id in ipairs(ids) do
    local due = redis.call('ZSCORE', KEYS[4], id)
    if wanted > 0 and (not due or tonumber(due) <= now) then
      local tries = redis.call('HINCRBY', KEYS[5], id, 1)
      local doublings = math.min(tries - 1, tonumber(ARGV[4]))
      redis.call('ZADD', KEYS[4], now + tonumber(ARGV[3]) * 2 ^ doublings, id)
      table.insert(claimed, id)
      table.insert(claimed, tries)
      table.insert(claimed, redis.call('HGET', KEYS[1], id))
      wanted = wanted - 1
    end
  end
end
if #claimed > 0 then
  redis.call('PEXPIRE', KEYS[4], math.max(tonumber(ARGV[5]), redis.call('PTTL', KEYS[1])))
  redis.call('PEXPIRE', KEYS[5], math.max(tonumber(ARGV[5]), redis.call('PTTL', KEYS[1])))
end
return claimed
"""
)

# KEYS: due tries
# ARGV: id
UNCLAIM = """
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then redis.call('HINCRBY', KEYS[2], ARGV[1], -1) end
return 1
"""

# KEYS: bodies expiry
# ARGV: limit
# Gives id, record, …
EXPIRED = (
    NOW_MS
    + """
local found = {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[1])) do
  table.insert(found, id)
  table.insert(found, redis.call('HGET', KEYS[1], id))
end
return found
"""
)

# KEYS: bodies since
# Gives how many entries there are, and the age of the oldest in ms.
LAG = (
    NOW_MS
    + """
local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return {redis.call('HLEN', KEYS[1]), oldest[2] and math.max(0, now - tonumber(oldest[2])) or 0}
"""
)
