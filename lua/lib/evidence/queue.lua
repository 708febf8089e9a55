--[[
queue: evidence of a request goes to the stream `unsigned`, from which a dispatcher takes what it signs. The argument
`evidence` of a request has lines: the issuers from which the clock chooses (`<number>:<from_ms>:<until_ms>`, blanks between),
the trace and what the client named, the digest of the request; and what refusals need.
]]

-- The format of the envelope.
local EVIDENCE_FORMAT = '1'

-- Returns the inputs of the envelope for a record or an entry, and the digest; nil if no issuer signs at this time.
local function evidence_inputs(evidence, now)
  local number, from_ms, until_ms, behind = evidence:match('^(%d+):(%d+):(%d*)()')
  while number and not (now >= tonumber(from_ms) and now < (tonumber(until_ms) or math.huge)) do
    number, from_ms, until_ms, behind = evidence:match('^ (%d+):(%d+):(%d*)()', behind)
  end
  if not number then return end
  -- A pattern over all lines costs more.
  local first = evidence:find('\n', behind, true)
  local second = evidence:find('\n', first + 1, true)
  local third = evidence:find('\n', second + 1, true)
  local traced, digest = evidence:sub(first + 1, second - 1), evidence:sub(second + 1, third - 1)
  return EVIDENCE_FORMAT .. ' ' .. number .. ' ' .. traced, digest
end
