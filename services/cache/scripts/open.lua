-- Reads a session; with touch = 1 as activity of its user, which postpones its expiry.
-- KEYS: session, turns, seen, tokens of the caller's model, sessions, gone, gone-user.
-- ARGV: session_id, user_id, now_ms, ttl_s, touch.
-- Gives {state, gone, gone_user, fields, messages, tokens, ttl_ms}; state is 'ok', 'none' or 'user' (another user's).
-- The messages are one `ChatMessages`: encoded ones in a row are the encoding of all of them together.
local session, turns, seen, tokens, sessions, gone, gone_user = unpack(KEYS)
local session_id, user_id, now_ms, ttl_s, touch = unpack(ARGV)

local function count(key) return redis.call('GET', key) or '0' end

local fields = redis.call('HMGET', session,
  'user', 'version', 'created_ms', 'updated_ms', 'head', 'tokens_key', 'user_key')
if not fields[2] then return {'none', count(gone), count(gone_user)} end
if user_id ~= '' and fields[1] ~= '' and fields[1] ~= user_id then
  return {'user', count(gone), count(gone_user)}
end

local tokens_key, user_key = fields[6], fields[7]
if touch == '1' then
  for _, key in ipairs({session, turns, seen, tokens_key, sessions, user_key}) do
    if key ~= '' then redis.call('EXPIRE', key, ttl_s) end
  end
  redis.call('ZADD', sessions, now_ms, session_id)
  if user_key ~= '' then redis.call('ZADD', user_key, now_ms, session_id) end
end

local stored_tokens = ''
if tokens == tokens_key then stored_tokens = redis.call('GET', tokens) or '' end
local messages = {string.sub(fields[5], 5)}
for _, entry in ipairs(redis.call('LRANGE', turns, 0, -1)) do table.insert(messages, string.sub(entry, 5)) end
return {'ok', count(gone), count(gone_user), fields, table.concat(messages), stored_tokens, redis.call('PTTL', session)}
