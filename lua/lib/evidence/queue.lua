--[[
queue: evidence of a request goes to the stream `unsigned`, from which a dispatcher takes what it signs. The argument
`evidence` of a request has lines: the issuers from which the clock chooses (`<number>:<from_ms>:<until_ms>`, blanks between),
the trace and what the client named, the digest of the request; and what refusals need.
]]

-- How the envelope is made of what is kept.
local EVIDENCE_FORMAT = '1'

-- Returns what a record or an entry keeps for the envelope, and the digest; nil where no issuer signs at this time.
local function evidence_inputs(evidence, now)
  -- A pattern over all lines costs more.
  local first = evidence:find('\n', 1, true)
  local second = evidence:find('\n', first + 1, true)
  local third = evidence:find('\n', second + 1, true)
  local traced, digest = evidence:sub(first + 1, second - 1), evidence:sub(second + 1, third - 1)
  for number, from_ms, until_ms in evidence:sub(1, first - 1):gmatch('(%d+):(%d+):(%d*)') do
    if now >= tonumber(from_ms) and now < (tonumber(until_ms) or math.huge) then
      return EVIDENCE_FORMAT .. ' ' .. number .. ' ' .. traced, digest
    end
  end
end
