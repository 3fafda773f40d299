-- Erases one session and its index entries, and invalidates leases on it.
-- KEYS: session, turns, seen, sessions, gone. ARGV: session_id, ttl_s. Gives the number of sessions erased, 0 or 1.
local session, turns, seen, sessions, gone = unpack(KEYS)
local fields = redis.call('HMGET', session, 'version', 'tokens_key', 'user_key')
redis.call('INCR', gone)
redis.call('EXPIRE', gone, ARGV[2])
redis.call('ZREM', sessions, ARGV[1])
if fields[3] and fields[3] ~= '' then redis.call('ZREM', fields[3], ARGV[1]) end
if fields[2] and fields[2] ~= '' then redis.call('DEL', fields[2]) end
redis.call('DEL', session, turns, seen)
return fields[1] and 1 or 0
