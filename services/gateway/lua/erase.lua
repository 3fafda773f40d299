-- KEYS: entry, dead letters, events.  ARGV: member.  Gives the state that the entry had ("absent": none).
-- What has ended goes at once. What has not ended keeps its outcome for a moment only, without its payload.
local state = redis.call('HGET', KEYS[1], 'state')
if not state or state == 'final' then
  redis.call('DEL', KEYS[1], KEYS[3])
  redis.call('ZREM', KEYS[2], ARGV[1])
  return state or 'absent'
end
redis.call('HSET', KEYS[1], 'erased', '1')
return state
