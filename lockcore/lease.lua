-- The lease rule. Twin of step.go; testdata/step.json holds both to the same answers.
-- The state table is in doc.go.
--
-- step(lease, last, command, now) -> verdict, lease, last, told
--   lease    {owner =, fence =, expires =, deadline =}, times in milliseconds since 1970; nil: no record
--   last     last fencing token given in the project
--   command  {op =, owner =, ttl =}, ttl in milliseconds
--   now      microseconds since 1970
--   verdict  'granted', 'taken_over', 'extended', 'released', 'observed', 'lock_held', 'lock_ownership_lost' or 'nothing'
--   told     the lease in force, if the verdict tells of it
-- The lease returned is a new table when it has changed, nil when there is none.

local MARGIN, GRACE = 1000, 1000
local MEMORY = 5 * 60 * 1000
local MAX_LIFETIME = 90 * 24 * 60 * 60 * 1000

local function phase(lease, ms)
  if not lease or ms >= lease.expires + GRACE then return 'free' end
  if ms >= lease.expires then return 'grace' end
  if ms >= lease.expires - MARGIN then return 'closing' end
  return 'held'
end

local function step(lease, last, command, now)
  local ms = math.floor(now / 1000)
  local at = phase(lease, ms)
  local own = lease and lease.owner == command.owner
  local op = command.op

  local function grant()
    local fence = math.max(last + 1, now)
    local forgotten = not lease or ms >= lease.expires + GRACE + MEMORY
    local new = {
      owner = command.owner, fence = fence,
      expires = ms + command.ttl, deadline = ms + MAX_LIFETIME,
    }
    return (own or forgotten) and 'granted' or 'taken_over', new, fence, new
  end

  local function extend()
    local longer = {
      owner = lease.owner, fence = lease.fence,
      expires = math.min(ms + command.ttl, lease.deadline), deadline = lease.deadline,
    }
    return 'extended', longer, last, longer
  end

  if op == 'acquire' then
    if at == 'free' then return grant() end
    if not own then return 'lock_held', lease, last, lease end
    if at == 'held' then return extend() end
    return 'lock_ownership_lost', lease, last
  elseif op == 'renew' then
    if at == 'held' and own then return extend() end
    return 'lock_ownership_lost', lease, last
  elseif op == 'release' then
    if at ~= 'free' and not own then return 'lock_ownership_lost', lease, last end
    return 'released', nil, last
  elseif op == 'force_release' then
    return 'released', nil, last
  elseif op == 'read' then
    if at == 'free' then return 'observed', lease, last end
    return 'observed', lease, last, lease
  end
  return 'nothing', lease, last
end
