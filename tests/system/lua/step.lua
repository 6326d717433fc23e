-- lua.sh: so many steps more, each of them a transaction. check.lua computes what they must have left.
local steps = ...
state = state or { step = 0, list = {}, names = {} }
for step = state.step + 1, state.step + steps do
    state.step = step
    for i = 1, 20 do
        state.list[#state.list + 1] = { step, i, tostring(step * i) }
        state.names["k" .. (step * i) % 97] = step
    end
    if step % 5 == 0 then
        local kept = {}
        for i, entry in ipairs(state.list) do if i % 3 == 0 then kept[#kept + 1] = entry end end
        state.list = kept
    end
    if step % 7 == 0 then collectgarbage() end
    print("ack " .. step)
    commit()
end
