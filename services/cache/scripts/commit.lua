-- Appends a turn to a session, once per request ID.
-- KEYS: session, turns, seen, tokens, sessions, user, gone, gone-user. ARGV user_id and token bytes may be empty.
-- ARGV: session_id, user_id, request_id, base_version, lease's gone and gone_user ('' without a lease), now_ms, ttl_s,
--       head, num_head, turn, num_turn (encoded entries and their numbers of messages), token bytes,
--       max_messages, max_bytes, max_sessions, max_seen.
-- Gives {state, version, conflict, dropped messages}; state is 'ok', 'gone' (erased since the lease was given),
-- 'user' (another user's session) or 'full' (too many sessions).
local session, turns, seen, tokens, sessions, user_key, gone, gone_user = unpack(KEYS)
local session_id, user_id, request_id, base_version, lease_gone, lease_gone_user, now_ms, ttl_s,
  head, num_head, turn, num_turn, token_bytes, max_messages, max_bytes, max_sessions, max_seen = unpack(ARGV)

if user_id == '' then user_key = '' end

local function erased(key, known) return known ~= '' and (redis.call('GET', key) or '0') ~= known end
if erased(gone, lease_gone) or erased(gone_user, lease_gone_user) then return {'gone', 0, 0, 0} end

local fields = redis.call('HMGET', session, 'user', 'version', 'messages', 'bytes', 'tokens_key', 'user_key')
local exists = fields[2]
local version, messages, bytes = tonumber(fields[2] or 0), tonumber(fields[3] or 0), tonumber(fields[4] or 0)
local old_tokens = fields[5] or ''
if exists then
  if user_id ~= '' and fields[1] ~= '' and fields[1] ~= user_id then return {'user', 0, 0, 0} end
  if fields[1] ~= '' then user_id, user_key = fields[1], fields[6] end
  local done = redis.call('ZSCORE', seen, request_id)
  if done then
    done = tonumber(done)
    return {'ok', math.floor(done / 2), done % 2, 0}
  end
else
  redis.call('ZREMRANGEBYSCORE', sessions, '-inf', tonumber(now_ms) - tonumber(ttl_s) * 1000)
  if redis.call('ZCARD', sessions) >= tonumber(max_sessions) then return {'full', 0, 0, 0} end
  redis.call('HSET', session, 'created_ms', now_ms, 'head', head)
end

local function append(entry, num)
  redis.call('RPUSH', turns, entry)
  messages, bytes = messages + num, bytes + #entry
end
if not exists then
  messages, bytes = tonumber(num_head), #head
elseif tonumber(num_head) > 0 then
  append(head, tonumber(num_head))
end
append(turn, tonumber(num_turn))

local dropped = 0
while (messages > tonumber(max_messages) or bytes > tonumber(max_bytes)) and redis.call('LLEN', turns) > 1 do
  local entry = redis.call('LPOP', turns)
  local a, b, c, d = string.byte(entry, 1, 4)
  local num = a + 256 * (b + 256 * (c + 256 * d))
  messages, bytes, dropped = messages - num, bytes - #entry, dropped + num
end

local conflict = version ~= tonumber(base_version)
version = version + 1
-- Tokens describe the whole conversation: they are worth nothing after a conflict or without the dropped turns.
local keeps_tokens = token_bytes ~= '' and not conflict and dropped == 0
if old_tokens ~= '' and not (keeps_tokens and old_tokens == tokens) then redis.call('DEL', old_tokens) end
if keeps_tokens then redis.call('SET', tokens, token_bytes, 'EX', ttl_s) end

redis.call('HSET', session, 'user', user_id, 'user_key', user_key, 'version', version, 'updated_ms', now_ms,
  'messages', messages, 'bytes', bytes,
  'tokens_key', keeps_tokens and tokens or '', 'tokens', keeps_tokens and #token_bytes / 4 or 0)
redis.call('ZADD', seen, version * 2 + (conflict and 1 or 0), request_id)
redis.call('ZREMRANGEBYRANK', seen, 0, -tonumber(max_seen) - 1)
redis.call('ZADD', sessions, now_ms, session_id)
if user_key ~= '' then redis.call('ZADD', user_key, now_ms, session_id) end
for _, key in ipairs({session, turns, seen, sessions, user_key}) do
  if key ~= '' then redis.call('EXPIRE', key, ttl_s) end
end
return {'ok', version, conflict and 1 or 0, dropped}
