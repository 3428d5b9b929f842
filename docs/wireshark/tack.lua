-- Wireshark dissector for TCP-TACK over UDP: whole and short headers, options, and the bodies of
-- TACKs and IACKs. The formats are those of crates/tcp/src/wire: header.rs, compact.rs,
-- tack_option.rs and body.rs, which have the drawings.
--
--   wireshark -X lua_script:tack.lua capture.pcapng         or copy it into the folder for plugins
--   tshark -X lua_script:tack.lua -r capture.pcapng -Y tack.ack_type==2
--
-- A conversation is recognised by its SYN, which carries TACK-Permitted. Where the capture does
-- not have it: the usual ports (preferences), or "Decode As".
--
-- What left in one call with segmentation offload, a capture on the machine that sent it has as one datagram. It is
-- cut here as the kernel would have cut it.

local tack = Proto("tack", "TCP-TACK over UDP")

local EXID = 0x7ac4
local ACK_TYPES = {
    [1] = "TACK", [2] = "loss IACK", [3] = "window IACK", [4] = "frequency IACK",
    [5] = "RTT IACK", [6] = "CE IACK",
}
local FORMS = { [1] = "short header", [2] = "whole header" }

local f = {
    form = ProtoField.uint8("tack.form", "Form", base.DEC, FORMS),
    srcport = ProtoField.uint16("tack.srcport", "Source port"),
    dstport = ProtoField.uint16("tack.dstport", "Destination port"),
    seq = ProtoField.uint32("tack.seq", "Sequence number"),
    ack = ProtoField.uint32("tack.ack", "Acknowledgment number"),
    offset = ProtoField.uint8("tack.hdr_len", "Header length"),
    flags = ProtoField.uint16("tack.flags", "Flags", base.HEX),
    fin = ProtoField.bool("tack.flags.fin", "FIN", 16, nil, 0x001),
    syn = ProtoField.bool("tack.flags.syn", "SYN", 16, nil, 0x002),
    rst = ProtoField.bool("tack.flags.rst", "RST", 16, nil, 0x004),
    psh = ProtoField.bool("tack.flags.psh", "PSH", 16, nil, 0x008),
    ackf = ProtoField.bool("tack.flags.ack", "ACK", 16, nil, 0x010),
    ece = ProtoField.bool("tack.flags.ece", "ECE", 16, nil, 0x040),
    cwr = ProtoField.bool("tack.flags.cwr", "CWR", 16, nil, 0x080),
    poll = ProtoField.bool("tack.flags.poll", "Poll mark", 16, nil, 0x800),
    window = ProtoField.uint16("tack.window", "Window, unscaled"),
    checksum = ProtoField.uint16("tack.checksum", "Checksum (UDP's counts)", base.HEX),
    urgent = ProtoField.uint16("tack.urgent", "Urgent pointer"),
    option = ProtoField.bytes("tack.option", "Option"),
    mss = ProtoField.uint16("tack.option.mss", "Maximum segment size"),
    wscale = ProtoField.uint8("tack.option.wscale", "Window scale"),
    sack_ok = ProtoField.none("tack.option.sack_permitted", "SACK permitted"),
    sack_left = ProtoField.uint32("tack.option.sack_left", "SACK left edge"),
    sack_right = ProtoField.uint32("tack.option.sack_right", "SACK right edge"),
    tsval = ProtoField.uint32("tack.tsval", "TSval (us)"),
    tsecr = ProtoField.uint32("tack.tsecr", "TSecr (us)"),
    permitted = ProtoField.none("tack.permitted", "TACK-Permitted"),
    features = ProtoField.uint16("tack.features", "Features", base.HEX),
    compact = ProtoField.bool("tack.features.compact", "Short headers", 16, nil, 0x0001),
    series = ProtoField.bool("tack.features.series", "Numbers of a series", 16, nil, 0x0002),
    pkt_seq = ProtoField.uint32("tack.pkt_seq", "PKT.SEQ"),
    anchor = ProtoField.uint16("tack.series.anchor", "Anchor of the series"),
    size = ProtoField.uint16("tack.series.size", "Text of each segment of the series (bytes)"),
    ack_type = ProtoField.uint8("tack.ack_type", "Kind of acknowledgment", base.DEC, ACK_TYPES),
    text = ProtoField.bytes("tack.text", "Text"),
    len = ProtoField.uint32("tack.len", "Bytes of text"),
    version = ProtoField.uint8("tack.body.version", "Version of the body"),
    bflags = ProtoField.uint8("tack.body.flags", "Flags of the body", base.HEX),
    counter = ProtoField.uint16("tack.body.counter", "TACK counter"),
    largest = ProtoField.uint32("tack.body.largest", "Largest PKT.SEQ received"),
    second = ProtoField.uint32("tack.body.second", "Largest PKT.SEQ before the gap"),
    interval = ProtoField.uint32("tack.body.interval", "Interval in force (us)"),
    t0 = ProtoField.uint32("tack.body.t0", "t0*: departure echoed (us)"),
    dt = ProtoField.uint32("tack.body.dt", "dt*: TACK delay (us)"),
    queued = ProtoField.uint32("tack.body.queued", "Waited on the data path (us)"),
    rate = ProtoField.uint32("tack.body.rate", "Delivery rate (kbit/s)"),
    rho = ProtoField.float("tack.body.rho", "rho: loss on the data path"),
    duplicates = ProtoField.uint32("tack.body.duplicates", "Packets that brought nothing new"),
    high = ProtoField.uint32("tack.body.high", "End of the highest byte received"),
    in_flight = ProtoField.uint32("tack.body.in_flight", "Received in flight (bytes)"),
    holes = ProtoField.uint16("tack.body.holes", "Holes"),
    left = ProtoField.uint32("tack.body.hole_left", "Left edge of a hole"),
    right = ProtoField.uint32("tack.body.hole_right", "Right edge of a hole"),
    complete = ProtoField.bool("tack.body.complete", "All holes there are"),
    startup = ProtoField.bool("tack.body.startup", "Regime: startup"),
    rho_ack = ProtoField.float("tack.body.rho_ack", "rho': loss on the way of ACKs"),
    rtt_min = ProtoField.uint32("tack.body.rtt_min", "RTTmin (us)"),
    per_ack = ProtoField.uint32("tack.body.l", "L: segments per acknowledgment"),
    bdp = ProtoField.uint32("tack.body.bdp", "bdp (bytes)"),
    marked = ProtoField.uint64("tack.body.marked", "Packets marked CE so far"),
}
local fields = {}
for _, field in pairs(f) do
    fields[#fields + 1] = field
end
tack.fields = fields

local e = {
    short = ProtoExpert.new("tack.too_short", "Cut short", expert.group.MALFORMED,
        expert.severity.ERROR),
    version = ProtoExpert.new("tack.unknown_version", "A version that is not known",
        expert.group.UNDECODED, expert.severity.WARN),
}
tack.experts = { e.short, e.version }

tack.prefs.ports = Pref.range("UDP ports", "8225-8226,5201",
    "Decoded as TCP-TACK even if the capture has no SYN", 65535)

-- Takes fields off the front of a body; `short` is set once one is not there.
local function reader(range, tree)
    local self = { at = 0, short = false }
    function self.take(size, field, scale)
        if self.short or self.at + size > range:len() then
            self.short = true
            return 0
        end
        local part = range(self.at, size)
        self.at = self.at + size
        local value = size == 8 and part:uint64():tonumber() or part:uint()
        if scale then
            tree:add(field, part, value * scale)
        else
            tree:add(field, part)
        end
        return value
    end
    return self
end

local function has(flags, mask)
    return math.floor(flags / mask) % 2 == 1
end

-- Gaps to the end of a body, and what is left over.
local function dissect_gaps(r, range)
    local said = ""
    while not r.short and r.at < range:len() do
        local largest, second = r.take(4, f.largest), r.take(4, f.second)
        if not r.short then
            said = said .. string.format(" lost %u..%u", second + 1, largest - 1)
        end
    end
    return said
end

local function dissect_tack(r, range, tree)
    local version = r.take(1, f.version)
    if version ~= 2 then
        tree:add_proto_expert_info(e.version)
        return string.format("version %d", version)
    end
    local flags = r.take(1, f.bflags)
    tree:add(f.complete, range(1, 1), has(flags, 0x04)):set_generated()
    tree:add(f.startup, range(1, 1), has(flags, 0x08)):set_generated()
    r.take(2, f.counter)
    local largest = r.take(4, f.largest)
    local interval = r.take(4, f.interval)
    if has(flags, 0x01) then
        r.take(4, f.t0)
        r.take(4, f.dt)
        if has(flags, 0x80) then r.take(4, f.queued) end
    end
    local said = string.format("largest=%u interval=%.1fms", largest, interval / 1000)
    if has(flags, 0x02) then
        said = said .. string.format(" rate=%.2fMbit/s", r.take(4, f.rate) / 1000)
    end
    if has(flags, 0x20) then r.take(2, f.rho, 1 / 65535) end
    if has(flags, 0x40) then r.take(4, f.duplicates) end
    if has(flags, 0x10) then
        r.take(4, f.high)
        r.take(4, f.in_flight)
        local holes = r.take(2, f.holes)
        for _ = 1, holes do
            r.take(4, f.left)
            r.take(4, f.right)
            if r.short then break end
        end
        said = said .. string.format(" holes=%d", holes)
    end
    return said .. dissect_gaps(r, range)
end

local function dissect_body(kind, range, root)
    local tree = root:add(tack, range, ACK_TYPES[kind] or "Acknowledgment of an unknown kind")
    local r, said = reader(range, tree), ""
    if kind == 1 then
        said = dissect_tack(r, range, tree)
    elseif kind == 2 then
        said = dissect_gaps(r, range)
    elseif kind == 4 then
        r.take(1, f.version)
        r.take(1, f.bflags)
        r.take(2, f.rho_ack, 1 / 65535)
        said = string.format("interval=%.1fms", r.take(4, f.interval) / 1000)
        r.take(4, f.rtt_min)
        r.take(4, f.per_ack)
        r.take(4, f.bdp)
    elseif kind == 6 then
        said = string.format("marked=%d", r.take(8, f.marked))
    end
    if r.short then
        tree:add_proto_expert_info(e.short)
    end
    return said
end

-- One option of TACK's: `body` is what follows kind and length.
local function dissect_ours(tree, body, seen)
    local length = body:len()
    if length == 2 then
        tree:add(f.permitted, body)
        seen.permitted = true
    elseif length == 3 then
        seen.ack_type = body(2, 1):uint()
        tree:add(f.ack_type, body(2, 1))
    elseif length == 4 then
        local features = tree:add(f.features, body(2, 2))
        features:add(f.compact, body(2, 2))
        features:add(f.series, body(2, 2))
    elseif length == 6 or length == 10 then
        -- Of a series it is the first segment's.
        seen.pkt_seq = body(2, 4):uint()
        tree:add(f.pkt_seq, body(2, 4))
        if length == 10 then
            tree:add(f.anchor, body(6, 2))
            tree:add(f.size, body(8, 2))
        end
    end
end

local function dissect_options(range, root, seen)
    local tree = root:add(tack, range, "Options")
    local at = 0
    while at < range:len() do
        local kind = range(at, 1):uint()
        if kind == 0 then break end
        if kind == 1 then
            at = at + 1
        else
            local length = at + 1 < range:len() and range(at + 1, 1):uint() or 0
            if length < 2 or at + length > range:len() then
                tree:add_proto_expert_info(e.short)
                return
            end
            local body = length > 2 and range(at + 2, length - 2) or nil
            if kind == 2 and length == 4 then
                tree:add(f.mss, body)
            elseif kind == 3 and length == 3 then
                tree:add(f.wscale, body)
            elseif kind == 4 then
                tree:add(f.sack_ok, range(at, length))
            elseif kind == 5 then
                for edge = 0, length - 10, 8 do
                    tree:add(f.sack_left, body(edge, 4))
                    tree:add(f.sack_right, body(edge + 4, 4))
                end
            elseif kind == 8 and length == 10 then
                tree:add(f.tsval, body(0, 4))
                tree:add(f.tsecr, body(4, 4))
            elseif kind == 253 and length >= 4 and body(0, 2):uint() == EXID then
                dissect_ours(tree, body, seen)
            else
                tree:add(f.option, range(at, length))
            end
            at = at + length
        end
    end
end

local NAMES = { { 0x002, "SYN" }, { 0x010, "ACK" }, { 0x001, "FIN" }, { 0x004, "RST" },
    { 0x008, "PSH" }, { 0x040, "ECE" }, { 0x080, "CWR" }, { 0x800, "POLL" } }

local function add_flags(tree, range, flags)
    local sub = tree:add(f.flags, range, flags)
    for _, field in ipairs({ f.fin, f.syn, f.rst, f.psh, f.ackf, f.ece, f.cwr, f.poll }) do
        sub:add(field, range, flags)
    end
    local names = {}
    for _, flag in ipairs(NAMES) do
        if has(flags, flag[1]) then names[#names + 1] = flag[2] end
    end
    return table.concat(names, ",")
end

local function add_ports(tree, buffer)
    tree:add(f.srcport, buffer(0, 2))
    tree:add(f.dstport, buffer(2, 2))
    return string.format("%d > %d", buffer(0, 2):uint(), buffer(2, 2):uint())
end

local function add_text(tree, buffer, at)
    local length = buffer:len() - at
    if length > 0 then
        tree:add(f.text, buffer(at))
    end
    tree:add(f.len, length):set_generated()
    return length
end

-- Streams are put together here, so that Wireshark's own dissector sees whole records of TLS and, with
-- the secrets of a capture (--capture-secrets) or of SSLKEYLOGFILE, decrypts them.
local MOST_HELD = 4096      -- segments of one direction beyond a hole
local MOST_RECORD = 16640   -- bytes of a record behind its header [RFC 8446 section 5.2]
local streams = {}          -- by addresses and ports: { next, held, count, left, plain }
local records = {}          -- by frame: the records that it completes
local tls = Dissector.get("tls")

function tack.init()
    streams, records = {}, {}
end

-- Takes whole records off what has arrived in order; nil if there are none.
local function whole_records(stream)
    local left, at = stream.left, 0
    while left:len() >= at + 5 do
        local kind = left:get_index(at)
        local length = left:get_index(at + 3) * 256 + left:get_index(at + 4)
        if kind < 20 or kind > 23 or left:get_index(at + 1) ~= 3 or length > MOST_RECORD then
            stream.plain = true
            return nil
        end
        if left:len() < at + 5 + length then break end
        at = at + 5 + length
    end
    if at == 0 then return nil end
    local whole = left:subset(0, at)
    stream.left = at < left:len() and left:subset(at, left:len() - at) or ByteArray.new()
    return whole
end

-- Puts a segment into its stream. Numbers are modulo 2^32.
local function take_in(stream, seq, bytes)
    local ahead = (seq - stream.next) % 0x100000000
    if ahead >= 0x80000000 then
        local known = 0x100000000 - ahead
        if known >= bytes:len() then return end
        bytes, ahead = bytes:subset(known, bytes:len() - known), 0
    end
    if ahead > 0 then
        if stream.count < MOST_HELD and not stream.held[seq] then
            stream.held[seq], stream.count = bytes, stream.count + 1
        end
        return
    end
    while bytes do
        stream.left:append(bytes)
        stream.next = (stream.next + bytes:len()) % 0x100000000
        bytes = stream.held[stream.next]
        if bytes then
            stream.held[stream.next], stream.count = nil, stream.count - 1
        end
    end
end

local function key_of(buffer, pinfo)
    return string.format("%s %s %d %d", tostring(pinfo.src), tostring(pinfo.dst),
        buffer(0, 2):uint(), buffer(2, 2):uint())
end

local function take_text(buffer, at, seq, is_syn, pinfo)
    if pinfo.visited then return end
    local key = key_of(buffer, pinfo)
    if is_syn then
        streams[key] = { next = (seq + 1) % 0x100000000, held = {}, count = 0,
            left = ByteArray.new() }
    end
    local stream = streams[key]
    if stream and not stream.plain and buffer:len() > at then
        take_in(stream, seq, buffer(at):bytes())
    end
end

-- Once for a frame: TLS tells the records of one frame apart by where they stand in it.
local function add_records(buffer, pinfo, root)
    local stream = streams[key_of(buffer, pinfo)]
    if not pinfo.visited and stream and not stream.plain then
        records[pinfo.number] = whole_records(stream)
    end
    local whole = records[pinfo.number]
    if not whole then return end
    -- One pair of UDP ports may carry many connections: TLS is to tell them apart by ours.
    local src, dst = pinfo.src_port, pinfo.dst_port
    pinfo.src_port, pinfo.dst_port = buffer(0, 2):uint(), buffer(2, 2):uint()
    pinfo.cols.info:fence()
    tls:call(whole:tvb("Records of TLS"), pinfo, root)
    pinfo.src_port, pinfo.dst_port = src, dst
    pinfo.cols.protocol = "TACK"
end

local function dissect_short(buffer, pinfo, root)
    local tree = root:add(tack, buffer(), "TCP-TACK, short header")
    local ports = add_ports(tree, buffer)
    tree:add(f.form, buffer(12, 1), 1)
    tree:add(f.seq, buffer(4, 4))
    tree:add(f.pkt_seq, buffer(8, 4))
    add_flags(tree, buffer(12, 2), buffer(13, 1):uint())
    tree:add(f.tsval, buffer(14, 4))
    local length = add_text(tree, buffer, 18)
    take_text(buffer, 18, buffer(4, 4):uint(), false, pinfo)
    return string.format("%s data PKT.SEQ=%u Seq=%u Len=%d", ports, buffer(8, 4):uint(),
        buffer(4, 4):uint(), length)
end

local function dissect_whole(buffer, pinfo, root)
    local header = math.floor(buffer(12, 1):uint() / 16) * 4
    local tree = root:add(tack, buffer(), "TCP-TACK")
    local ports = add_ports(tree, buffer)
    tree:add(f.form, buffer(12, 1), 2)
    tree:add(f.seq, buffer(4, 4))
    tree:add(f.ack, buffer(8, 4))
    tree:add(f.offset, buffer(12, 1), header)
    local names = add_flags(tree, buffer(12, 2), buffer(12, 2):uint() % 0x1000)
    tree:add(f.window, buffer(14, 2))
    tree:add(f.checksum, buffer(16, 2))
    tree:add(f.urgent, buffer(18, 2))
    local seen = {}
    if header > 20 then
        dissect_options(buffer(20, header - 20), tree, seen)
    end
    local said = string.format("%s [%s]", ports, names)
    if seen.ack_type then
        said = string.format("%s %s Ack=%u", ports, ACK_TYPES[seen.ack_type] or "ACK",
            buffer(8, 4):uint())
        if buffer:len() > header then
            said = said .. " " .. dissect_body(seen.ack_type, buffer(header), tree)
        end
    else
        local length = add_text(tree, buffer, header)
        said = said .. string.format(" Seq=%u Ack=%u", buffer(4, 4):uint(), buffer(8, 4):uint())
        if seen.pkt_seq then said = said .. string.format(" PKT.SEQ=%u", seen.pkt_seq) end
        said = said .. string.format(" Len=%d", length)
    end
    if seen.permitted then said = said .. " TACK-Permitted" end
    if not seen.ack_type then
        local is_syn = has(buffer(13, 1):uint(), 0x02)
        take_text(buffer, header, buffer(4, 4):uint(), is_syn, pinfo)
    end
    return said
end

-- Whether the bytes can be a segment: 0 no, 1 a short header, 2 a whole one.
local function form_of(buffer)
    if buffer:len() < 19 then return 0 end
    local words = math.floor(buffer(12, 1):uint() / 16)
    if words == 1 then return 1 end
    if buffer:len() >= 20 and words >= 5 and words * 4 <= buffer:len() then return 2 end
    return 0
end

local function number(raw, at)
    local a, b, c, d = raw:byte(at + 1, at + 4)
    return d and ((a * 256 + b) * 256 + c) * 256 + d
end

-- PKT.SEQ of the segment that begins at this byte of a datagram; nil if none does, or it has none.
local function pkt_seq_at(raw, at)
    local words = math.floor((raw:byte(at + 13) or 0) / 16)
    if words == 1 then return number(raw, at + 8) end
    local option, last = at + 20, at + words * 4
    while option < last do
        local kind, length, high, low = raw:byte(option + 1, option + 4)
        if kind == 253 and (length == 8 or length == 12) and low and high * 256 + low == EXID then
            return number(raw, option + 4)
        end
        if kind == 0 or kind ~= 1 and (length or 0) < 2 then return nil end
        option = option + (kind == 1 and 1 or length)
    end
    return nil
end

-- How long each segment of a datagram is, but the last: until the same ports, with the next number.
local function segment_size(buffer)
    local raw = buffer:raw()
    local first = pkt_seq_at(raw, 0)
    local next = first and raw:find(raw:sub(1, 4), 20, true)
    while next do
        if pkt_seq_at(raw, next - 1) == (first + 1) % 0x100000000 then return next - 1 end
        next = raw:find(raw:sub(1, 4), next + 1, true)
    end
    return buffer:len()
end

function tack.dissector(buffer, pinfo, root)
    if form_of(buffer) == 0 then
        return 0
    end
    pinfo.cols.protocol = "TACK"
    local size, count, info = segment_size(buffer), 0, nil
    for at = 0, buffer:len() - 1, size do
        local segment = buffer(at, math.min(size, buffer:len() - at)):tvb()
        local form = form_of(segment)
        -- What is behind is cut off in the capture.
        if form == 0 then break end
        local said = form == 1 and dissect_short(segment, pinfo, root)
            or dissect_whole(segment, pinfo, root)
        info, count = info or said, count + 1
    end
    if count > 1 then
        info = string.format("%s, the first of %d in one datagram", info, count)
    end
    pinfo.cols.info = info
    add_records(buffer, pinfo, root)
    return buffer:len()
end

-- A SYN with TACK-Permitted claims its conversation.
local function heuristic(buffer, pinfo, root)
    if form_of(buffer) ~= 2 or not has(buffer(13, 1):uint(), 0x02) then
        return false
    end
    local header = math.floor(buffer(12, 1):uint() / 16) * 4
    for at = 20, header - 4 do
        if buffer(at, 1):uint() == 253 and buffer(at + 1, 1):uint() == 4
            and buffer(at + 2, 2):uint() == EXID then
            tack.dissector(buffer, pinfo, root)
            pinfo.conversation = tack
            return true
        end
    end
    return false
end
tack:register_heuristic("udp", heuristic)

local udp = DissectorTable.get("udp.port")
local registered
function tack.prefs_changed()
    if registered ~= tack.prefs.ports then
        if registered then udp:remove(registered, tack) end
        registered = tack.prefs.ports
        if registered and registered ~= "" then udp:add(registered, tack) end
    end
end
udp:add("8225-8226,5201", tack)
registered = "8225-8226,5201"
