-- clock() -> microseconds since 1970 on the store's clock. Read once per decision.

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
