-- Remembers that questions were asked.
-- KEYS: heat, texts, askers, tenants. ARGV: tenant, tau_s, max_questions, ttl_s, now_s, then for each: key, text, tags of
-- the asker (32 bytes). Gives the number of questions that are remembered.
local heat, texts, askers, tenants = unpack(KEYS)
local tenant, tau_s, max, ttl_s, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local PAIR, MAX_ASKERS = 32, 64

local function with(tags, pair)
  for at = 1, #tags, PAIR do
    if string.sub(tags, at, at + PAIR - 1) == pair then return tags end
  end
  if #tags >= PAIR * MAX_ASKERS then tags = string.sub(tags, PAIR + 1) end
  return tags .. pair
end

for at = 6, #ARGV, 3 do
  local key, text, pair = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  -- The logarithm of a decaying count, as a time: heat = e^((score - now) / tau).
  local old = tonumber(redis.call('ZSCORE', heat, key) or '-inf')
  local high, low = math.max(old, now), math.min(old, now)
  redis.call('ZADD', heat, high + tau_s * math.log(1 + math.exp((low - high) / tau_s)), key)
  redis.call('HSET', texts, key, text)
  redis.call('HSET', askers, key, with(redis.call('HGET', askers, key) or '', pair))
end
for _, key in ipairs(redis.call('ZRANGE', heat, 0, math.min(-1, -max - 1))) do
  redis.call('ZREM', heat, key)
  redis.call('HDEL', texts, key)
  redis.call('HDEL', askers, key)
end
for _, name in ipairs({heat, texts, askers}) do redis.call('EXPIRE', name, ttl_s) end
redis.call('ZADD', tenants, now, tenant)
redis.call('ZREMRANGEBYSCORE', tenants, '-inf', now - ttl_s)
redis.call('EXPIRE', tenants, ttl_s)
return redis.call('ZCARD', heat)
