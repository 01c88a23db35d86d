-- The fixed-window rule. Twin of window.go; testdata/window.json holds both to the same answers.
--
-- take(window, limit, now) -> window, admitted
--   window    {start =, count =}: start of the window in microseconds since 1970, requests counted; nil: none yet
--   limit     requests per window
--   now       microseconds since 1970
--   admitted  true when this request is within the limit; a refused one leaves the count as it was

local WINDOW = 60 * 1000000

local function take(window, limit, now)
  local start = now - now % WINDOW
  if not window or window.start ~= start then
    window = {start = start, count = 0}
  end
  local admitted = window.count < limit
  if admitted then
    window.count = window.count + 1
  end
  return window, admitted
end
