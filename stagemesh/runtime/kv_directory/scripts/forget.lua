-- Erases pages of one holder that no other living one holds; leases given to it before store nothing any more.
-- ARGV: namespace, holder, first call (1 or 0), gone_ttl_s, max. Gives {erased, bytes, pages still to look at}.
local space, holder, max = ARGV[1], ARGV[2], tonumber(ARGV[5])
local held, gone = space .. 'held:' .. holder, space .. 'gone:' .. holder
if ARGV[3] == '1' then
  redis.call('INCR', gone)
  redis.call('EXPIRE', gone, ARGV[4])
end

local function holds(tag, digest) return tag ~= holder and redis.call('SISMEMBER', space .. 'held:' .. tag, digest) == 1 end

local pages, erased = 0, 0
for _, digest in ipairs(redis.call('SPOP', held, max)) do
  local bytes, worth, cost, tags = read_page(space, digest)
  if bytes then
    local others = ''
    for at = 1, #tags, TAG_BYTES do
      local tag = string.sub(tags, at, at + TAG_BYTES - 1)
      if holds(tag, digest) then others = others .. tag end
    end
    if others == '' then
      pages, erased = pages + 1, erased + drop(space, digest, 'forgotten')
    else
      write_page(space, digest, bytes, worth, cost, others)
    end
  else -- who else holds it is not known: it goes
    erased = erased + drop(space, digest, 'forgotten')
  end
end
return {pages, whole(erased), redis.call('SCARD', held)}
