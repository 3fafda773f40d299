-- Put in front of every script of the directory (layout.py describes the keys). The KV Redis is one server, no cluster:
-- scripts look at several tenants at once. Times are the server's.
local ALL = 'stagemesh:kv:{all}:'
local LIMITS, SPACES, BYTES = ALL .. 'limits', ALL .. 'spaces', ALL .. 'bytes'
local PROTECTED = 2 ^ 40 -- added to the score of what is pinned
local DEPTH_STEP_S = 0.01 -- later pages of a chain go first, also where they were stored a little later
local INDEX_SLACK_S = 3600 -- the index outlives the values
local TAG_BYTES, MAX_TAGS = 16, 4 -- holders that a page remembers
local MAX_HELD = 32768 -- pages that one holder can have
local MAX_SWEPT = 64 -- entries tidied in passing

local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6

local function whole(number) return string.format('%.0f', number) end

local function limit(name) return tonumber(redis.call('HGET', LIMITS, name) or 0) end

-- What the allocator takes for a value: four size classes per doubling; and the entries about it.
local function footprint(num_bytes)
  num_bytes = num_bytes + 32
  local step = 16
  while step * 8 < num_bytes do step = step * 2 end
  return math.ceil(num_bytes / step) * step + 512
end

-- Lets `key` live at least `ttl_s` more.
local function keep(key, ttl_s)
  local left = redis.call('TTL', key)
  if left ~= -2 and left < ttl_s then redis.call('EXPIRE', key, math.ceil(ttl_s)) end
end

local function keep_index(space, ttl_s)
  for _, name in ipairs({'order', 'expiry', 'pages', 'pins', 'sums'}) do keep(space .. name, ttl_s + INDEX_SLACK_S) end
  keep(SPACES, ttl_s + INDEX_SLACK_S)
  keep(BYTES, ttl_s + INDEX_SLACK_S)
end

-- Numbers that a record can hold; anything else was not written by these scripts.
local function is_sane(bytes, worth, cost)
  return bytes >= 0 and bytes < 2 ^ 40 and bytes % 1 == 0 and math.abs(worth) < PROTECTED / 4 and math.abs(cost) < PROTECTED / 4
end

-- Bytes, worth and cost of a page, and the tags of its last holders; nothing for what is no record.
local function unpack_page(packed)
  local size = #packed
  if size < 16 or size > 24 + TAG_BYTES * MAX_TAGS or size % 8 ~= 0 then return nil end
  local bytes, worth = struct.unpack('<dd', packed)
  local cost, tags = 0, string.sub(packed, 17) -- one that was entered before there were costs
  if size % TAG_BYTES ~= 0 then cost, tags = struct.unpack('<d', packed, 17), string.sub(packed, 25) end
  if is_sane(bytes, worth, cost) then return bytes, worth, cost, tags end
end

-- The same; nothing if the directory does not know the page.
local function read_page(space, digest)
  local packed = redis.call('HGET', space .. 'pages', digest)
  if not packed then return nil end
  return unpack_page(packed)
end

local function write_page(space, digest, bytes, worth, cost, tags)
  redis.call('HSET', space .. 'pages', digest, struct.pack('<ddd', bytes, worth, cost) .. tags)
end

local function used(space) return tonumber(redis.call('ZSCORE', SPACES, space) or 0) end

local function count(space, delta)
  if tonumber(redis.call('ZINCRBY', SPACES, whole(delta), space)) <= 0 then redis.call('ZREM', SPACES, space) end
  redis.call('INCRBY', BYTES, whole(delta))
end

-- Erases a page, whatever remains of it; `why` is the sum that counts it.
local function drop(space, digest, why)
  local value_bytes = redis.pcall('STRLEN', space .. 'v:' .. digest)
  redis.call('DEL', space .. 'v:' .. digest)
  redis.call('ZREM', space .. 'order', digest)
  redis.call('ZREM', space .. 'expiry', digest)
  local was_pinned = redis.call('ZREM', space .. 'pins', digest) == 1
  local bytes = read_page(space, digest)
  if redis.call('HDEL', space .. 'pages', digest) == 0 then return 0 end
  if not bytes then bytes, why = footprint(tonumber(value_bytes) or 0), 'vanished' end -- the record said nothing
  if was_pinned then redis.call('HINCRBY', space .. 'sums', 'pinned', whole(-bytes)) end
  redis.call('HINCRBY', space .. 'sums', why, 1)
  count(space, -bytes)
  return bytes
end

local function unpin(space, digest)
  if redis.call('ZREM', space .. 'pins', digest) == 0 then return 0 end
  local bytes = read_page(space, digest)
  if not bytes then -- the index has lost the page
    drop(space, digest)
    return 0
  end
  redis.call('HINCRBY', space .. 'sums', 'pinned', whole(-bytes))
  redis.call('ZINCRBY', space .. 'order', -PROTECTED, digest)
  return 1
end

-- Protects a page until `until_s`, as far as the protected region has room.
local function pin(space, digest, until_s)
  local bytes = read_page(space, digest)
  if not bytes then return 0 end
  if redis.call('ZSCORE', space .. 'pins', digest) then
    redis.call('ZADD', space .. 'pins', 'GT', until_s, digest)
    return 1
  end
  local pinned = tonumber(redis.call('HGET', space .. 'sums', 'pinned') or 0)
  if pinned + bytes > limit('pinned_bytes') then return 0 end
  redis.call('ZADD', space .. 'pins', until_s, digest)
  keep(space .. 'pins', until_s - now + INDEX_SLACK_S)
  redis.call('ZINCRBY', space .. 'order', PROTECTED, digest)
  redis.call('HINCRBY', space .. 'sums', 'pinned', whole(bytes))
  return 1
end

-- Takes out what has ended by its time.
local function sweep(space, max)
  for _, digest in ipairs(redis.call('ZRANGE', space .. 'expiry', '-inf', now, 'BYSCORE', 'LIMIT', 0, max)) do
    drop(space, digest, 'expired')
  end
  for _, digest in ipairs(redis.call('ZRANGE', space .. 'pins', '-inf', now, 'BYSCORE', 'LIMIT', 0, max)) do
    unpin(space, digest)
  end
end

-- The page to go next; nothing where all that is left is protected.
local function lowest(space)
  local found = redis.call('ZRANGE', space .. 'order', 0, 0, 'WITHSCORES')
  if not found[1] or tonumber(found[2]) >= PROTECTED / 2 then return nil end
  return found[1], read_page(space, found[1]) or 0
end

-- Who gives a page when all together are over the budget: the greatest that stays at its fair share without it, else
-- the one that publishes.
local function victim(space, total_bytes)
  local share = total_bytes / math.max(1, redis.call('ZCARD', SPACES))
  for _, other in ipairs(redis.call('ZRANGE', SPACES, 0, 31, 'REV')) do
    if used(other) <= share then break end
    local digest, bytes = lowest(other)
    if digest and (other == space or used(other) - bytes >= share) then return other, digest end
  end
  return space, (lowest(space))
end

-- Evicts until the tenant and all together are within their budgets. Gives pages and bytes.
local function evict(space, max)
  local tenant_bytes, total_bytes = limit('tenant_bytes'), limit('total_bytes')
  local pages, bytes = 0, 0
  while pages < max do
    local owner, digest = space, nil
    if used(space) > tenant_bytes then
      digest = lowest(space)
    elseif tonumber(redis.call('GET', BYTES) or 0) > total_bytes then
      owner, digest = victim(space, total_bytes)
    end
    if not digest then break end
    pages, bytes = pages + 1, bytes + drop(owner, digest, 'evicted')
  end
  return pages, bytes
end

local function is_over(space)
  return used(space) > limit('tenant_bytes') or tonumber(redis.call('GET', BYTES) or 0) > limit('total_bytes')
end

-- The page's tags with `tag` as the last holder.
local function with_tag(tags, tag)
  if tag == '' then return tags end
  for at = 1, #tags, TAG_BYTES do
    if string.sub(tags, at, at + TAG_BYTES - 1) == tag then return tags end
  end
  if #tags >= TAG_BYTES * MAX_TAGS then tags = string.sub(tags, TAG_BYTES + 1) end
  return tags .. tag
end

-- Takes away what has another type than the directory gives it, or is no number where one is counted.
local function mend(types, counts)
  for name, kind in pairs(types) do
    local is = redis.call('TYPE', name).ok
    if is ~= 'none' and is ~= kind then redis.call('DEL', name) end
  end
  local fields = redis.call('HGETALL', counts)
  for i = 1, #fields, 2 do
    if not string.match(fields[i + 1], '^%-?%d+$') or #fields[i + 1] > 16 then redis.call('HDEL', counts, fields[i]) end
  end
end

local function mend_index(space)
  mend({
    [space .. 'order'] = 'zset', [space .. 'expiry'] = 'zset', [space .. 'pins'] = 'zset',
    [space .. 'pages'] = 'hash', [space .. 'sums'] = 'hash', [SPACES] = 'zset', [BYTES] = 'string',
  }, space .. 'sums')
  if not string.match(redis.call('GET', BYTES) or '0', '^%-?%d+$') then redis.call('DEL', BYTES) end
end
