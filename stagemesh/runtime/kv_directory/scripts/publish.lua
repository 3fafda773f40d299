-- Enters stored pages, once their values are there. Idempotent.
-- ARGV: lease's namespace, lease_id, epoch, namespace of the pages, ttl_s, horizon_s, pin (0 or 1),
--       depth of the first page, cost of these pages in seconds, digest of the page before the first ('' for none),
--       then digest and number of bytes of each page.
-- Gives {refusal, entered, known, missing, full, evicted, evicted bytes}; the refusal is '' where there is none.
local home, lease_id, epoch, space = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ttl_s, horizon_s, pins, depth = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1', tonumber(ARGV[8])
local run_cost, parent, FIRST = tonumber(ARGV[9]), ARGV[10], 11

local function refuse(why) -- and leave no value behind that nobody knows
  for at = FIRST, #ARGV, 2 do
    if not read_page(space, ARGV[at]) then redis.call('DEL', space .. 'v:' .. ARGV[at]) end
  end
  return {why, 0, 0, 0, 0, 0, 0}
end
if redis.call('EXISTS', LIMITS) == 0 then return refuse('NO_LIMITS') end
if redis.call('HGET', LIMITS, 'epoch') ~= epoch then return refuse('OTHER_EPOCH') end
local lease = redis.call('HMGET', home .. 'l:' .. lease_id, 'holder', 'holder_erased', 'user', 'user_erased')
if not lease[1] then return refuse('NO_LEASE') end
local function erasures(tag) return redis.call('GET', home .. 'gone:' .. tag) or '0' end
if erasures(lease[1]) ~= lease[2] or erasures(lease[3]) ~= lease[4] then return refuse('FORGOTTEN') end
local holder = space == home and lease[1] or ''
local held = space .. 'held:' .. holder

-- A page whose value was written again in another size, e.g. another format.
local function resized(digest, old, worth, cost, tags, new)
  if new == old then return old end
  local until_s = redis.call('ZSCORE', space .. 'pins', digest)
  unpin(space, digest)
  count(space, new - old)
  write_page(space, digest, new, worth, cost, tags)
  if until_s then pin(space, digest, until_s) end
  return new
end

sweep(space, MAX_SWEPT)
local expires_s = math.floor(now) + ttl_s
local entered, known, missing, full = {}, 0, 0, 0
-- A page is of no use without those before it: none counts as dearer than the one that it follows.
local highest = math.huge
if parent ~= '' then highest = select(3, read_page(space, parent)) or highest end
for at = FIRST, #ARGV, 2 do
  local digest, num_bytes = ARGV[at], tonumber(ARGV[at + 1])
  local value = space .. 'v:' .. digest
  local bytes, worth, cost, tags = read_page(space, digest)
  if redis.call('STRLEN', value) ~= num_bytes then
    missing = missing + 1
    if bytes then drop(space, digest, 'vanished') end
  elseif holder ~= '' and redis.call('SCARD', held) >= MAX_HELD then
    full = full + 1
    if not bytes then redis.call('DEL', value) end
  else
    if bytes then
      known = known + 1
      local new, old_cost = footprint(num_bytes), cost
      cost = math.min(new == bytes and cost or run_cost, highest)
      bytes = resized(digest, bytes, worth, cost, tags, new)
      -- The score is the logarithm of a sum to which each use has added its term with the old cost.
      if cost ~= old_cost then redis.call('ZINCRBY', space .. 'order', cost - old_cost, digest) end
    else
      bytes, worth, cost, tags = footprint(num_bytes), horizon_s, math.min(run_cost, highest), ''
      if redis.call('HEXISTS', space .. 'pages', digest) == 0 then count(space, bytes) end -- else its record said nothing
      redis.call('ZADD', space .. 'order', now + worth + cost - depth * DEPTH_STEP_S, digest)
      entered[#entered + 1] = digest
    end
    highest = cost
    write_page(space, digest, bytes, worth, cost, with_tag(tags, holder))
    if redis.call('TTL', value) < ttl_s then
      redis.call('EXPIREAT', value, expires_s)
      redis.call('ZADD', space .. 'expiry', 'GT', expires_s, digest)
    else
      redis.call('ZADD', space .. 'expiry', redis.call('EXPIRETIME', value), digest)
    end
    if holder ~= '' then redis.call('SADD', held, digest) end
    if pins then pin(space, digest, expires_s) end
  end
  depth = depth + 1
end
keep(held, ttl_s + INDEX_SLACK_S)
redis.call('HINCRBY', space .. 'sums', 'published', #entered)
keep_index(space, ttl_s)

local evicted, evicted_bytes = evict(space, 512)
while #entered > 0 and is_over(space) do -- nothing else may go: what came last does
  local bytes = drop(space, table.remove(entered), 'evicted')
  if bytes > 0 then evicted, evicted_bytes = evicted + 1, evicted_bytes + bytes end
end
return {'', #entered, known, missing, full, evicted, evicted_bytes}
