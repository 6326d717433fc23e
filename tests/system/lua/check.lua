-- lua.sh: is the state what its count of steps says?
local list, names = {}, {}
for step = 1, state.step do
    for i = 1, 20 do
        list[#list + 1] = { step, i, tostring(step * i) }
        names["k" .. (step * i) % 97] = step
    end
    if step % 5 == 0 then
        local kept = {}
        for i, entry in ipairs(list) do if i % 3 == 0 then kept[#kept + 1] = entry end end
        list = kept
    end
end
local equal = #list == #state.list
for i, entry in ipairs(list) do
    for k = 1, 3 do equal = equal and entry[k] == state.list[i][k] end
end
for name, step in pairs(names) do equal = equal and state.names[name] == step end
for name, step in pairs(state.names) do equal = equal and names[name] == step end
collectgarbage()
print("step " .. state.step, equal and "equal" or "DIFFERENT")
