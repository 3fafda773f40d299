-- A page of an index, newest first, after the entry (score, member) where the last page ended.
-- KEYS: index. ARGV: size, oldest living score, last score ('' for the first page), last member.
-- Gives {member, score, member, score, ...}, at most `size` pairs.
local index, size, oldest, last_score, last_member = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local offset = 0
if last_score ~= '' then
  -- Where the last entry is gone or has moved, entries of its millisecond may come twice, but none is left out.
  offset = redis.call('ZCOUNT', index, '(' .. last_score, '+inf')
  local score = redis.call('ZSCORE', index, last_member)
  if score and tonumber(score) == tonumber(last_score) then offset = redis.call('ZREVRANK', index, last_member) + 1 end
end
return redis.call('ZRANGE', index, '+inf', oldest, 'BYSCORE', 'REV', 'LIMIT', offset, size, 'WITHSCORES')
