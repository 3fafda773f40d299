-- Protects stored pages from eviction until a time, or ends that.
-- ARGV: namespace, until_s (0: unpin), digests. Gives the number of pages that are protected, or no longer are.
local space, until_s, done = ARGV[1], tonumber(ARGV[2]), 0
sweep(space, MAX_SWEPT)
for at = 3, #ARGV do
  if until_s == 0 then done = done + unpin(space, ARGV[at]) else done = done + pin(space, ARGV[at], until_s) end
end
return done
