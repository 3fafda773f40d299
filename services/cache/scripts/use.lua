-- Writes down what became of a request, once.
-- KEYS: usage, session-usage (not used without a session), heat, requests, ring.
-- ARGV: request_id, record, session_id, ttl_s, max_requests, tau_s, max_sessions, then names and amounts to add.
-- Gives 1, or 0 for a request that was written down before.
local usage, session_usage, heat, requests, ring = unpack(KEYS)
local request_id, record, session_id = ARGV[1], ARGV[2], ARGV[3]
local ttl_s, max_requests, tau_s, max_sessions = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

if redis.call('HEXISTS', requests, request_id) == 1 then return 0 end
if max_requests > 0 then
  redis.call('HSET', requests, request_id, record)
  redis.call('LPUSH', ring, request_id)
  while redis.call('LLEN', ring) > max_requests do redis.call('HDEL', requests, redis.call('RPOP', ring)) end
end

local function add(key)
  for at = 8, #ARGV, 2 do redis.call('HINCRBY', key, ARGV[at], ARGV[at + 1]) end
end
add(usage)
if session_id ~= '' then
  add(session_usage)
  -- The logarithm of a decaying count, as a time: heat = e^((score - now) / tau).
  local time = redis.call('TIME')
  local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
  local old = tonumber(redis.call('ZSCORE', heat, session_id) or '-inf')
  local high, low = math.max(old, now), math.min(old, now)
  redis.call('ZADD', heat, high + tau_s * math.log(1 + math.exp((low - high) / tau_s)), session_id)
  redis.call('ZREMRANGEBYRANK', heat, 0, -max_sessions - 1)
end
for _, key in ipairs({usage, session_usage, heat, requests, ring}) do
  redis.call('EXPIRE', key, ttl_s)
end
return 1
