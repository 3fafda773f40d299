-- Takes an asker off all questions; those that nobody else asked are erased.
-- KEYS: heat, texts, askers. ARGV: 16 bytes that stand for a session or a user. Gives the keys of what is erased.
local heat, texts, askers = unpack(KEYS)
local gone, PAIR, TAG = ARGV[1], 32, 16
local erased = {}
local all = redis.call('HGETALL', askers)
for i = 1, #all, 2 do
  local key, tags, rest = all[i], all[i + 1], ''
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
return erased
