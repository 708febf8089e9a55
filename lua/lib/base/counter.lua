--[[ counter: a stored number that HINCRBY is to move. That refuses anything else, and by then other keys are written. ]]

-- Asked before the effects: raises where it is none.
local function counter_check(key, text)
  if #text > 15 or not (text == '0' or text:find('^%-?[1-9]%d*$')) then error(key .. ': a counter is no number') end
end
