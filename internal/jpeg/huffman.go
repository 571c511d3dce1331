package jpeg

const errHuffman = fault("a Huffman table is damaged")

// huffman is a table of codes of 1 to 16 bits (T.81, annex C).
type huffman struct {
	symbols []byte
	fast    [256]uint16 // by the next 8 bits: symbol<<8 | length, 0 for longer codes
	first   [17]int32   // code of each length
	last    [17]int32   // last code of each length; -1 if there is none
	index   [17]int32   // index of the first code's symbol, for each length
}

func (d *decoder) readHuffman(b []byte) {
	for len(b) > 0 {
		if len(b) < 17 || b[0]>>4 > 1 || b[0]&15 > 3 {
			panic(errHuffman)
		}
		n := 0
		for _, count := range b[1:17] {
			n += int(count)
		}
		if n > 256 || len(b) < 17+n {
			panic(errHuffman)
		}
		d.tables[b[0]>>4][b[0]&15] = newHuffman(b[1:17], b[17:17+n])
		b = b[17+n:]
	}
}

func newHuffman(counts, symbols []byte) *huffman {
	h := &huffman{symbols: symbols}
	code, at := int32(0), int32(0)
	for length := 1; length <= 16; length++ {
		n := int32(counts[length-1])
		h.first[length], h.last[length], h.index[length] = code, code+n-1, at
		if n == 0 {
			h.last[length] = -1
		}
		if code+n > 1<<length {
			panic(errHuffman)
		}
		for i := int32(0); i < n && length <= 8; i++ {
			from := (code + i) << (8 - length)
			for k := range int32(1) << (8 - length) {
				h.fast[from+k] = uint16(symbols[at+i])<<8 | uint16(length)
			}
		}
		at, code = at+n, (code+n)<<1
	}
	return h
}

// need makes n bits available, at most 16. It does not invent bits beyond the scan's data.
func (d *decoder) need(n int) {
	for d.nbits < n {
		if !d.load() {
			panic(errTruncated)
		}
	}
}

// load reads a byte of the scan, if there is one.
func (d *decoder) load() bool {
	if d.at >= len(d.data) {
		return false
	}
	b := d.data[d.at]
	if b == fill {
		if d.at+1 >= len(d.data) || d.data[d.at+1] != 0 {
			return false
		}
		d.at++
	}
	d.at++
	d.bits, d.nbits = d.bits<<8|uint32(b), d.nbits+8
	return true
}

// receive reads n bits, 16 at most.
func (d *decoder) receive(n int) int32 {
	d.need(n)
	d.nbits -= n
	return int32(d.bits >> d.nbits & (1<<n - 1))
}

// extended reads n bits of a number that may be negative (T.81, figure F.12).
func (d *decoder) extended(n int) int32 {
	v := d.receive(n)
	if n > 0 && v < 1<<(n-1) {
		v += -1<<n + 1
	}
	return v
}

// symbol reads a code.
func (d *decoder) symbol(h *huffman) byte {
	for d.nbits < 8 && d.load() {
	}
	if d.nbits >= 8 {
		if found := h.fast[d.bits>>(d.nbits-8)&255]; found != 0 {
			d.nbits -= int(found & 255)
			return byte(found >> 8)
		}
	}
	for length := 1; length <= 16; length++ {
		d.need(length)
		code := int32(d.bits >> (d.nbits - length) & (1<<length - 1))
		if code <= h.last[length] && code >= h.first[length] {
			d.nbits -= length
			return h.symbols[h.index[length]+code-h.first[length]]
		}
	}
	panic(fault("the data have a code that no table has"))
}
