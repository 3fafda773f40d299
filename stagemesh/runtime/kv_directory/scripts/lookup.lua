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

local function holds(space, digest, bytes, worth, tags)
  local more = with_tag(tags, holder)
  if more ~= tags then write_page(space, digest, bytes, worth, more) end
end

-- Touches the leading stored pages of ARGV[from … to]. Gives their number and that of vanished values.
local function touch(space, from, to, first_depth, keeps)
  local digests = {unpack(ARGV, from, to)}
  local packed = redis.call('HMGET', space .. 'pages', unpack(digests))
  local scores = redis.call('ZMSCORE', space .. 'order', unpack(digests))
  local order, expiry, found, vanished = {}, {}, {}, 0
  for i, digest in ipairs(digests) do
    if not packed[i] then break end
    if redis.call('EXPIREAT', space .. 'v:' .. digest, expires_s) == 0 then
      drop(space, digest, 'vanished')
      vanished = 1
      break
    end
    local bytes, worth = struct.unpack('<dd', packed[i])
    found[i] = digest
    order[2 * i - 1], order[2 * i] = touched(tonumber(scores[i] or now), horizon_s or worth, first_depth + i - 1), digest
    expiry[2 * i - 1], expiry[2 * i] = expires_s, digest
    if keeps then holds(space, digest, bytes, worth, string.sub(packed[i], 17)) end
  end
  if #found > 0 then
    redis.call('ZADD', space .. 'order', unpack(order))
    redis.call('ZADD', space .. 'expiry', unpack(expiry))
    if keeps and redis.call('SCARD', home .. 'held:' .. holder) < MAX_HELD then
      redis.call('SADD', home .. 'held:' .. holder, unpack(found))
    end
  end
  return #found, vanished
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
