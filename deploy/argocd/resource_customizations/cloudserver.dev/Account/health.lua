-- Healthy: the service takes the token, for the spec that stands.
-- Degraded: somebody has to mend something, and waiting does not help.
-- Progressing: all else. It goes on by itself.
local status = obj.status
if status == nil or status.conditions == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "Waiting for the operator to read the spec" }
end

local is = {}
for _, condition in ipairs(status.conditions) do
  if condition.status == "True" then
    is[condition.type] = true
  end
  if condition.type == "Ready" then
    is.message = condition.reason .. ": " .. condition.message
  end
end

if is.Stalled then
  return { status = "Degraded", message = is.message }
end
if is.Ready and not is.Reconciling then
  return { status = "Healthy", message = is.message }
end
return { status = "Progressing", message = is.message or "Waiting for the condition Ready" }
