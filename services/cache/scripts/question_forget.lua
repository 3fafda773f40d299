-- Takes an asker off some questions; those that nobody else asked are erased.
-- KEYS: heat, texts, askers, tenants. ARGV: 16 bytes that stand for a session or a user, tenant, now_s, then
-- the keys of the questions. Gives those of what is erased.
local heat, texts, askers, tenants = unpack(KEYS)
local gone, PAIR, TAG = ARGV[1], 32, 16
local erased = {}
for i = 4, #ARGV do
  local key, rest = ARGV[i], ''
  local tags = redis.call('HGET', askers, key) or ''
  for at = 1, #tags, PAIR do
    local pair = string.sub(tags, at, at + PAIR - 1)
    if string.sub(pair, 1, TAG) ~= gone and string.sub(pair, TAG + 1) ~= gone then rest = rest .. pair end
  end
  if rest == '' then
    redis.call('HDEL', askers, key)
    redis.call('HDEL', texts, key)
    redis.call('ZREM', heat, key)
    erased[#erased + 1] = key
  elseif rest ~= tags then
    redis.call('HSET', askers, key, rest)
  end
end
if #erased > 0 then redis.call('ZADD', tenants, 'XX', ARGV[3], ARGV[2]) end
return erased
