-- One decision: count the request, move the lease, at one moment. Joined after clock.lua, window.lua and lease.lua.
--
-- KEYS  1 quota   of what is counted: string '<start of window in microseconds>:<count>', expires by itself
--       2 fence   string, last fencing token of the project, never expires
--       3 lease   hash owner, fence, expires, deadline (milliseconds), expires by itself at E + grace + memory
-- ARGV  1 requests per window  2 operation  3 owner  4 ttl in milliseconds
-- Returns strings: now in microseconds, admitted (1 or 0), count, verdict, fencing token, E in milliseconds;
-- the last two are 0 where the verdict tells of no lease.
--
-- Everything is read and checked before the first write: an error in Lua does not undo earlier writes.
-- An error that starts with DAMAGED is about a record of this project; reply.go looks for the word.

-- Lua's own formatting turns 4503599627370497 into 4.5035996273705e+15.
local function text(n) return string.format('%.0f', n) end

local function whole(s, what)
  local n = s and string.match(s, '^%d+$') and tonumber(s)
  if not n or n >= 2 ^ 53 then error(what .. ' is not a whole number below 2^53', 0) end
  return n
end

local function read_window(key)
  local value = redis.call('GET', key)
  if not value then return nil end
  local start, count = string.match(value, '^(%d+):(%d+)$')
  return {start = whole(start, 'DAMAGED quota record: start'), count = whole(count, 'DAMAGED quota record: count')}
end

local function read_lease(key)
  local r = redis.call('HMGET', key, 'owner', 'fence', 'expires', 'deadline')
  if not (r[1] or r[2] or r[3] or r[4]) then return nil end
  if not r[1] then error('DAMAGED lease record: it has no owner', 0) end
  return {
    owner = r[1], fence = whole(r[2], 'DAMAGED lease record: fence'),
    expires = whole(r[3], 'DAMAGED lease record: expires'), deadline = whole(r[4], 'DAMAGED lease record: deadline'),
  }
end

local quota_key, fence_key, lease_key = KEYS[1], KEYS[2], KEYS[3]
local limit = whole(ARGV[1], 'the limit')
local command = {op = ARGV[2], owner = ARGV[3], ttl = whole(ARGV[4], 'the ttl')}

local now = clock()
local old = read_lease(lease_key)
local last = whole(redis.call('GET', fence_key) or '0', 'DAMAGED fence record: the last fencing token')
local window, admitted = take(read_window(quota_key), limit, now)

local verdict, lease, fence, told = 'nothing', old, last, nil
if admitted then
  verdict, lease, fence, told = step(old, last, command, now)
end

redis.call('SET', quota_key, text(window.start) .. ':' .. text(window.count), 'PX', WINDOW / 1000)
if fence ~= last then
  redis.call('SET', fence_key, text(fence))
end
if old and not lease then
  redis.call('DEL', lease_key)
elseif lease ~= old then
  redis.call('HSET', lease_key, 'owner', lease.owner, 'fence', text(lease.fence),
    'expires', text(lease.expires), 'deadline', text(lease.deadline))
  redis.call('PEXPIREAT', lease_key, text(lease.expires + GRACE + MEMORY))
end

return {
  text(now), admitted and '1' or '0', text(window.count), verdict,
  text(told and told.fence or 0), text(told and told.expires or 0),
}
