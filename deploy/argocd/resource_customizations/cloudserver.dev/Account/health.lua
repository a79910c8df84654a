-- Healthy: the service accepts the token, and status is about the current spec.
-- Degraded: a user must fix something; waiting is not expected to help.
-- Progressing: everything else. The operator continues automatically.
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
