-- Puts a record in the place of the version that it was made from, with a line of the audit, or does nothing.
-- KEYS: records, audit. ARGV: scope, version before, record as JSON, lines that the audit keeps, then the line's names and
-- values.
-- Gives 1, or 0 where another change came first.
local before = redis.call('HGET', KEYS[1], ARGV[1])
local version = before and cjson.decode(before)['version'] or 0
if version ~= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', unpack(ARGV, 5))
return 1
