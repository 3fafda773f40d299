-- Reads the mesh-wide epoch and secret, making them on first use; both live on as long as somebody asks.
-- KEYS: epoch, secret. ARGV: first epoch, fresh secret, ttl_s. Gives {epoch, secret}.
local function get_or_make(key, value)
  local found = redis.call('GETEX', key, 'EX', ARGV[3])
  if found then return found end
  redis.call('SET', key, value, 'EX', ARGV[3])
  return value
end
return {get_or_make(KEYS[1], ARGV[1]), get_or_make(KEYS[2], ARGV[2])}
