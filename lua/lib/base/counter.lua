--[[
counter: checks a stored number that HINCRBY is to move. HINCRBY refuses anything else, and by then other keys are
written.
]]

-- Called before the effects: raises where the text is no number.
local function counter_check(key, text)
  if #text > 15 or not (text == '0' or text:find('^%-?[1-9]%d*$')) then error(key .. ': a counter is no number') end
end
