-- Makes a new version of a knowledge base the one that is searched, whole or not at all.
-- KEYS: base, bases, lock, then the parts of new files, then the parts of files that are no longer needed.
-- ARGV: lock token, version before (0: none), tenant's limit of bases, name, number of new parts, ttl_s of old parts,
--       then field, value, field, value … of the manifest.
-- Gives 'ok', 'lost' (another sync took over), 'full' (too many bases) or 'gone' (a part is not there).
local base, bases, lock = KEYS[1], KEYS[2], KEYS[3]
local token, before, limit, name, num_new, ttl_s = unpack(ARGV, 1, 6)

if redis.call('GET', lock) ~= token then return 'lost' end
if (redis.call('HGET', base, 'version') or '0') ~= before then return 'lost' end
if before == '0' and redis.call('SCARD', bases) >= tonumber(limit) then return 'full' end
for i = 4, 3 + num_new do
  if redis.call('EXISTS', KEYS[i]) == 0 then return 'gone' end
end
for i = 4, 3 + num_new do redis.call('PERSIST', KEYS[i]) end
for i = 4 + num_new, #KEYS do redis.call('EXPIRE', KEYS[i], ttl_s) end
redis.call('DEL', base)
for i = 7, #ARGV, 2 do redis.call('HSET', base, ARGV[i], ARGV[i + 1]) end
redis.call('SADD', bases, name)
return 'ok'
