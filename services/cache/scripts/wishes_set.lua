-- Puts a preference in force, or replaces the text of one.
-- KEYS: wishes. ARGV: id, 1 if it must exist, now_ms, ttl_s, most in force, JSON {text, rule, normalized}.
-- Gives {state, JSON}; state is 'ok', 'none' (there is none of this ID) or 'full' (too many are in force).
local wishes = KEYS[1]
local id, must_exist, now_ms, ttl_s, most_in_force = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local said = cjson.decode(ARGV[6])

local stored = redis.call('HGET', wishes, id)
if not stored and must_exist == '1' then return {'none', ''} end
local wish = stored and cjson.decode(stored) or {count = 0, since_ms = 0, first_ms = now_ms, last_ms = now_ms}
if wish.since_ms == 0 then
  local in_force = 0
  for _, other in ipairs(redis.call('HVALS', wishes)) do
    if cjson.decode(other).since_ms > 0 then in_force = in_force + 1 end
  end
  if in_force >= most_in_force then return {'full', ''} end
  wish.since_ms = now_ms
end
wish.text, wish.rule, wish.normalized = said.text, said.rule, said.normalized
redis.call('HSET', wishes, id, cjson.encode(wish))
redis.call('EXPIRE', wishes, ttl_s)
return {'ok', cjson.encode(wish)}
