package jpeg

import "slices"

const errScan = fault("a scan's header is damaged")

// readScan reads a scan's header and the data after it.
func (d *decoder) readScan(b []byte) {
	if d.scans++; d.scans > mostScans {
		panic(fault("the file has more scans than this program reads"))
	}
	if len(d.components) == 0 || len(b) < 1 || b[0] < 1 || b[0] > 4 || len(b) != 4+2*int(b[0]) {
		panic(errScan)
	}
	n := int(b[0])
	var in []*component
	for i := range n {
		id, tables := b[1+2*i], b[2+2*i]
		k := slices.IndexFunc(d.components, func(c component) bool { return c.id == id })
		if k < 0 || tables>>4 > 3 || tables&15 > 3 || slices.Contains(in, &d.components[k]) {
			panic(errScan)
		}
		c := &d.components[k]
		c.dc, c.ac = d.tables[0][tables>>4], d.tables[1][tables&15]
		in = append(in, c)
	}
	b = b[1+2*n:]
	d.first, d.end, d.high, d.low = int(b[0]), int(b[1]), uint(b[2]>>4), uint(b[2]&15)
	if d.frame != sof2 {
		d.first, d.end, d.high, d.low = 0, 63, 0, 0
	}
	progressive := d.frame == sof2
	if d.first > d.end || d.end > 63 || d.low > 13 || progressive && d.first == 0 && d.end > 0 || d.first > 0 && n > 1 {
		panic(errScan)
	}
	for _, c := range in {
		if c.quant == nil {
			if c.quant = d.quants[c.table]; c.quant == nil {
				panic(fault("a quantization table is missing"))
			}
			c.coeffs = make([][64]int16, c.stride*d.mcus.Y*c.v)
		}
		if d.first == 0 && d.high == 0 && c.dc == nil || d.end > 0 && c.ac == nil {
			panic(fault("a Huffman table is missing"))
		}
	}
	d.scan(in)
}

// scan reads the data of a scan, block by block.
func (d *decoder) scan(in []*component) {
	d.reset(in)
	across, down := d.mcus.X, d.mcus.Y
	if len(in) == 1 {
		across, down = in[0].width, in[0].height
	}
	for mcu := range across * down {
		if d.restart > 0 && mcu > 0 && mcu%d.restart == 0 {
			switch marker, ok := d.marker(); {
			case !ok:
				panic(errTruncated)
			case marker != rst0+byte((mcu/d.restart-1)%8):
				panic(fault("the data lack a restart marker"))
			}
			d.reset(in)
		}
		x, y := mcu%across, mcu/across
		if len(in) == 1 {
			d.block(in[0], x, y)
			continue
		}
		for _, c := range in {
			for k := range c.h * c.v {
				d.block(c, x*c.h+k%c.h, y*c.v+k/c.h)
			}
		}
	}
}

// reset clears the state that later blocks take from earlier ones.
func (d *decoder) reset(in []*component) {
	d.bits, d.nbits, d.eobRun = 0, 0, 0
	for _, c := range in {
		c.last = 0
	}
}

// block reads a scan's part of one block.
func (d *decoder) block(c *component, x, y int) {
	b := &c.coeffs[y*c.stride+x]
	at := d.first
	if at == 0 {
		if d.high > 0 {
			b[0] |= int16(d.receive(1) << d.low)
			return
		}
		n := d.symbol(c.dc)
		if n > 15 {
			panic(fault("a DC coefficient is too large"))
		}
		c.last += d.extended(int(n))
		b[0] = int16(c.last << d.low)
		at = 1
	}
	switch {
	case at > d.end:
		return
	case d.high > 0:
		d.refine(c, b)
		return
	case d.eobRun > 0:
		d.eobRun--
		return
	}
	for ; at <= d.end; at++ {
		symbol := d.symbol(c.ac)
		run, n := int(symbol>>4), int(symbol&15)
		if n == 0 && run < 15 {
			d.endOfBand(run, 1)
			return
		}
		if at += run; n == 0 {
			continue
		}
		v := d.extended(n)
		if at > d.end {
			panic(errCoefficients)
		}
		b[zigzag[at]] = int16(v << d.low)
	}
}

const errCoefficients = fault("a block has too many coefficients")

// endOfBand reads how many blocks have nothing more in this scan, minus the done ones (T.81, G.1.2.2).
func (d *decoder) endOfBand(run, done int) {
	if d.frame != sof2 && run > 0 {
		panic(fault("a sequential scan has an end-of-band run"))
	}
	d.eobRun = 1<<run + int(d.receive(run)) - done
}

// refine reads one more bit of a block's coefficients (T.81, G.1.2.3).
func (d *decoder) refine(c *component, b *[64]int16) {
	one := int16(1) << d.low
	at := d.first
	for d.eobRun == 0 && at <= d.end {
		symbol := d.symbol(c.ac)
		run, n, v := int(symbol>>4), int(symbol&15), int16(0)
		switch {
		case n == 1:
			if v = one; d.receive(1) == 0 {
				v = -one
			}
		case n > 1:
			panic(fault("a refined coefficient has more than one bit"))
		case run < 15:
			d.endOfBand(run, 0)
			continue
		}
		at = d.refineRun(b, at, run, one)
		if v != 0 {
			if at > d.end {
				panic(errCoefficients)
			}
			b[zigzag[at]] = v
		}
		at++
	}
	if d.eobRun > 0 {
		d.eobRun--
		d.refineRun(b, at, 64, one)
	}
}

// refineRun refines the coefficients other than zero until it has passed run zeros, and returns the index of the next
// one.
func (d *decoder) refineRun(b *[64]int16, at, run int, one int16) int {
	for ; at <= d.end; at++ {
		v := &b[zigzag[at]]
		if *v == 0 {
			if run == 0 {
				break
			}
			run--
			continue
		}
		switch {
		case d.receive(1) == 0 || *v&one != 0:
		case *v > 0:
			*v += one
		default:
			*v -= one
		}
	}
	return at
}
