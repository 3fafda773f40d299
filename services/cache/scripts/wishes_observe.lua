-- Counts a request's standing wishes, once per request, and gives the user's wishes as they are then.
-- KEYS: wishes, seen.
-- ARGV: request_id, now_ms, ttl_s, statements needed, most in force, most tracked, then id, opposite id, JSON {text,
--       rule, normalized} of each wish. Gives a list of id, JSON, id, JSON …
local wishes, seen = KEYS[1], KEYS[2]
local request_id, now_ms, ttl_s = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local needed, most_in_force, most_tracked = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local MAX_SEEN = 64

local function all()
  local found, in_force = {}, 0
  local flat = redis.call('HGETALL', wishes)
  for i = 1, #flat, 2 do
    found[flat[i]] = cjson.decode(flat[i + 1])
    if found[flat[i]].since_ms > 0 then in_force = in_force + 1 end
  end
  return found, in_force
end

if #ARGV > 6 and redis.call('ZADD', seen, 'NX', now_ms, request_id) == 1 then
  redis.call('ZREMRANGEBYRANK', seen, 0, -MAX_SEEN - 1)
  local found, in_force = all()
  for i = 7, #ARGV, 3 do
    local id, opposite, said = ARGV[i], ARGV[i + 1], cjson.decode(ARGV[i + 2])
    local wish = found[id] or {count = 0, since_ms = 0, first_ms = now_ms}
    wish.count, wish.last_ms = wish.count + 1, now_ms
    if wish.rule ~= 'set' then wish.text, wish.rule, wish.normalized = said.text, said.rule, said.normalized end
    if wish.since_ms == 0 and wish.count >= needed then
      if found[opposite] and found[opposite].since_ms > 0 then in_force = in_force - 1 end
      if in_force < most_in_force then
        wish.since_ms, in_force = now_ms, in_force + 1
        redis.call('HDEL', wishes, opposite)
        found[opposite] = nil
      end
    end
    found[id] = wish
    redis.call('HSET', wishes, id, cjson.encode(wish))
  end
  while redis.call('HLEN', wishes) > most_tracked do
    local oldest, oldest_ms
    for id, wish in pairs(found) do
      if wish.since_ms == 0 and (not oldest or wish.last_ms < oldest_ms or (wish.last_ms == oldest_ms and id < oldest)) then
        oldest, oldest_ms = id, wish.last_ms
      end
    end
    if not oldest then break end
    redis.call('HDEL', wishes, oldest)
    found[oldest] = nil
  end
end
redis.call('EXPIRE', wishes, ttl_s)
redis.call('EXPIRE', seen, ttl_s)
return redis.call('HGETALL', wishes)
