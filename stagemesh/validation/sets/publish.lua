-- Makes a load the set that is used, whole or not at all.
-- KEYS: sets of the tenant, tenants, generation, then the chunks of this load.
-- ARGV: name, tenant, limit of sets, manifest as JSON, time that replaced chunks are kept.
-- Gives the generation, or 'full' (too many sets), or 'gone' (a chunk is not there).
local sets, tenants, counter = KEYS[1], KEYS[2], KEYS[3]
local name, tenant, limit, manifest, ttl_s = unpack(ARGV)

local before = redis.call('HGET', sets, name)
if not before and redis.call('HLEN', sets) >= tonumber(limit) then return 'full' end
for i = 4, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 0 then return 'gone' end
end
for i = 4, #KEYS do redis.call('PERSIST', KEYS[i]) end
local generation = redis.call('INCR', counter)
local stored = cjson.decode(manifest)
stored['generation'] = generation
redis.call('HSET', sets, name, cjson.encode(stored))
redis.call('SADD', tenants, tenant)
if before then
  local old = cjson.decode(before)
  for i = 0, old['chunks'] - 1 do redis.call('EXPIRE', sets .. ':' .. old['token'] .. ':' .. i, ttl_s) end
end
return tostring(generation)
