-- Gives a lease, and finds how many leading pages are stored; their worth rises and their life is lengthened.
-- ARGV: namespace, lease_id, lease_ttl_s, holder (16 bytes, or '' for none), user (likewise), ttl_s, pages of the
--       public namespace among the digests, public namespace, horizon_s of this use ('': that of each page),
--       then the digests in order.
-- Gives {number of leading pages, entries whose value had vanished, 1 if the holder had stored the first missing page};
-- {-1, 0, 0} where nobody has set limits yet.
local home, lease_id, lease_ttl_s, holder, user = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local ttl_s, num_public, public_space = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local horizon_s = tonumber(ARGV[9])
local FIRST, SLICE = 10, 512

if redis.call('EXISTS', LIMITS) == 0 then return {-1, 0, 0} end
local tau_s = math.max(1, limit('tau_s'))
local expires_s = math.floor(now) + ttl_s

if lease_id ~= '' then
  local function erasures(tag) return redis.call('GET', home .. 'gone:' .. tag) or '0' end
  local name = home .. 'l:' .. lease_id
  redis.call('HSET', name, 'holder', holder, 'holder_erased', erasures(holder), 'user', user, 'user_erased', erasures(user))
  redis.call('EXPIRE', name, lease_ttl_s)
  if user ~= '' and holder ~= user and holder ~= '' then
    redis.call('SADD', home .. 'of:' .. user, holder)
    keep(home .. 'of:' .. user, ttl_s + lease_ttl_s + INDEX_SLACK_S)
  end
end

-- A use more: with a decaying count of uses (time constant tau_s), the score grows to the logarithm of the sum.
local function touched(score, worth, depth)
  local protected = score >= PROTECTED / 2 and PROTECTED or 0
  local old, new = score - protected + depth * DEPTH_STEP_S, now + worth
  local high, low = math.max(old, new), math.min(old, new)
  return high + tau_s * math.log(1 + math.exp((low - high) / tau_s)) - depth * DEPTH_STEP_S + protected
end

-- Notes the holder in pages whose last one it is not.
local function hold(space, digests, packed, known)
  for i = 1, known do
    if string.sub(packed[i], -TAG_BYTES) ~= holder then
      local bytes, worth, cost, tags = unpack_page(packed[i])
      local more = with_tag(tags, holder)
      if more ~= tags then write_page(space, digests[i], bytes, worth, cost, more) end
    end
  end
  if redis.call('SCARD', home .. 'held:' .. holder) < MAX_HELD then
    redis.call('SADD', home .. 'held:' .. holder, unpack(digests, 1, known))
  end
end

-- Of the first `known` values, how many lead that are there; a missing one is taken out. Gives 1 if there was one.
local function present(space, digests, known)
  local values = {}
  for i = 1, known do values[i] = space .. 'v:' .. digests[i] end
  if redis.call('EXISTS', unpack(values)) == known then return known, 0 end
  for i = 1, known do
    if redis.call('EXISTS', values[i]) == 0 then
      drop(space, digests[i], 'vanished')
      return i - 1, 1
    end
  end
  return known, 0
end

-- Postpones the end of pages, but of none whose end was postponed in the last sixteenth of its time.
local function renew(space, digests, known)
  local ends, renewed = redis.call('ZMSCORE', space .. 'expiry', unpack(digests, 1, known)), {}
  for i = 1, known do
    if tonumber(ends[i] or 0) < now + ttl_s * 15 / 16 then
      redis.call('EXPIREAT', space .. 'v:' .. digests[i], expires_s)
      renewed[#renewed + 1] = expires_s
      renewed[#renewed + 1] = digests[i]
    end
  end
  if #renewed > 0 then redis.call('ZADD', space .. 'expiry', unpack(renewed)) end
end

-- Touches the leading stored pages of ARGV[from … to]. Gives their number and that of vanished values.
local function touch(space, from, to, first_depth, keeps)
  local digests = {unpack(ARGV, from, to)}
  local packed, known, vanished = redis.call('HMGET', space .. 'pages', unpack(digests)), 0, 0
  while packed[known + 1] and unpack_page(packed[known + 1]) do known = known + 1 end
  if packed[known + 1] then -- a record that says nothing
    drop(space, digests[known + 1], 'vanished')
    vanished = 1
  end
  if known > 0 then
    local lost
    known, lost = present(space, digests, known)
    vanished = vanished + lost
  end
  if known == 0 then return 0, vanished end
  local scores, order = redis.call('ZMSCORE', space .. 'order', unpack(digests, 1, known)), {}
  for i = 1, known do
    local _, worth, cost = unpack_page(packed[i])
    local use = (horizon_s or worth) + cost
    order[2 * i - 1], order[2 * i] = touched(tonumber(scores[i] or now), use, first_depth + i - 1), digests[i]
  end
  redis.call('ZADD', space .. 'order', unpack(order))
  renew(space, digests, known)
  if keeps then hold(space, digests, packed, known) end
  return known, vanished
end

local function touch_all(space, from, to, keeps)
  local first, found, vanished = from, 0, 0
  sweep(space, MAX_SWEPT)
  while from <= to do
    local upto = math.min(to, from + SLICE - 1)
    local more, lost = touch(space, from, upto, from - FIRST, keeps)
    found, vanished = found + more, vanished + lost
    if more < upto - from + 1 then break end
    from = upto + 1
  end
  if found > 0 then keep_index(space, ttl_s) end
  return found, vanished
end

local found, vanished = touch_all(public_space, FIRST, FIRST + num_public - 1, false)
if found == num_public then
  local own, lost = touch_all(home, FIRST + num_public, #ARGV, holder ~= '')
  found, vanished = found + own, vanished + lost
  if holder ~= '' then keep(home .. 'held:' .. holder, ttl_s + INDEX_SLACK_S) end
end
local missing = ARGV[FIRST + found]
local had = missing and holder ~= '' and redis.call('SISMEMBER', home .. 'held:' .. holder, missing) or 0
return {found, vanished, had}
