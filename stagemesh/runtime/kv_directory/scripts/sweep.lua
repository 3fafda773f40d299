-- Brings the index of a namespace in line with the values: what ended, what vanished, what is over a budget.
-- ARGV: namespace, cursor of the last call ('0' at first), max. Gives {next cursor, entries that were wrong}.
local space, cursor, max, wrong = ARGV[1], ARGV[2], tonumber(ARGV[3]), 0
mend_index(space)
sweep(space, max)
local next, entries = unpack(redis.call('HSCAN', space .. 'pages', cursor, 'COUNT', max))
for i = 1, #entries, 2 do
  local digest = entries[i]
  local expires_s = redis.call('EXPIRETIME', space .. 'v:' .. digest)
  if expires_s == -2 or not unpack_page(entries[i + 1]) then
    drop(space, digest, 'vanished')
    wrong = wrong + 1
  end
end
if redis.call('EXISTS', space .. 'pages') == 0 and used(space) > 0 then -- the index itself is gone
  count(space, -used(space))
  redis.call('DEL', space .. 'order', space .. 'expiry', space .. 'pins', space .. 'sums')
  wrong = wrong + 1
end
if cursor == '0' then
  local total, spaces = 0, redis.call('ZRANGE', SPACES, 0, -1, 'WITHSCORES')
  for i = 2, #spaces, 2 do total = total + tonumber(spaces[i]) end
  local ttl_s = redis.call('TTL', SPACES)
  if total > 0 then redis.call('SET', BYTES, whole(total), 'EX', math.max(1, ttl_s)) else redis.call('DEL', BYTES) end
end
evict(space, max)
return {next, wrong}
