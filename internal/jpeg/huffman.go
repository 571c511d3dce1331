package jpeg

import "errors"

var errHuffman = errors.New("a Huffman table is damaged")

// huffman is a table of codes of 1 to 16 bits (T.81, annex C).
type huffman struct {
	symbols []byte
	fast    [256]uint16 // by the next 8 bits: symbol<<8 | length, 0 for longer codes
	first   [17]int32   // code of each length
	last    [17]int32   // last code of each length; -1 if there is none
	index   [17]int32   // index of the first code's symbol, for each length
}

func (d *decoder) readHuffman(b []byte) error {
	for len(b) > 0 {
		if len(b) < 17 || b[0]>>4 > 1 || b[0]&15 > 3 {
			return errHuffman
		}
		n := 0
		for _, count := range b[1:17] {
			n += int(count)
		}
		if n > 256 || len(b) < 17+n {
			return errHuffman
		}
		h, err := newHuffman(b[1:17], b[17:17+n])
		if err != nil {
			return err
		}
		if b[0]>>4 == 0 {
			d.dcs[b[0]&15] = h
		} else {
			d.acs[b[0]&15] = h
		}
		b = b[17+n:]
	}
	return nil
}

func newHuffman(counts, symbols []byte) (*huffman, error) {
	h := &huffman{symbols: symbols}
	code, at := int32(0), int32(0)
	for length := 1; length <= 16; length++ {
		n := int32(counts[length-1])
		h.first[length], h.last[length], h.index[length] = code, code+n-1, at
		if n == 0 {
			h.last[length] = -1
		}
		if code+n > 1<<length {
			return nil, errHuffman
		}
		for i := int32(0); i < n && length <= 8; i++ {
			from := (code + i) << (8 - length)
			for k := range int32(1) << (8 - length) {
				h.fast[from+k] = uint16(symbols[at+i])<<8 | uint16(length)
			}
		}
		at, code = at+n, (code+n)<<1
	}
	return h, nil
}

// need makes n bits available, at most 16. It does not invent bits beyond the scan's data, but reports an error.
func (d *decoder) need(n int) error {
	for d.nbits < n {
		if !d.load() {
			return errTruncated
		}
	}
	return nil
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
func (d *decoder) receive(n int) (int32, error) {
	if err := d.need(n); err != nil {
		return 0, err
	}
	d.nbits -= n
	return int32(d.bits >> d.nbits & (1<<n - 1)), nil
}

// extended reads n bits of a number that may be negative (T.81, figure F.12).
func (d *decoder) extended(n int) (int32, error) {
	v, err := d.receive(n)
	if n > 0 && v < 1<<(n-1) {
		v += -1<<n + 1
	}
	return v, err
}

// symbol reads a code.
func (d *decoder) symbol(h *huffman) (byte, error) {
	for d.nbits < 8 && d.load() {
	}
	if d.nbits >= 8 {
		if found := h.fast[d.bits>>(d.nbits-8)&255]; found != 0 {
			d.nbits -= int(found & 255)
			return byte(found >> 8), nil
		}
	}
	for length := 1; length <= 16; length++ {
		if err := d.need(length); err != nil {
			return 0, err
		}
		code := int32(d.bits >> (d.nbits - length) & (1<<length - 1))
		if code <= h.last[length] && code >= h.first[length] {
			d.nbits -= length
			return h.symbols[h.index[length]+code-h.first[length]], nil
		}
	}
	return 0, errors.New("the data have a code that no table has")
}
