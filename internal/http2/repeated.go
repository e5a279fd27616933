package http2

// repeated is the beginning of a header block that was sent before and may be sent again as it is: all
// of its fields are in the table of the compression, and nothing has entered that since. Most requests
// of a client begin with the same fields.
type repeated struct {
	fields []Field
	block  []byte
}

// forget must be called when the table changes.
func (r *repeated) forget() { r.fields, r.block = r.fields[:0], r.block[:0] }

// begins reports whether a header begins with the fields.
func (r *repeated) begins(header []Field) bool {
	if len(r.fields) == 0 || len(header) < len(r.fields) {
		return false
	}
	for i := range r.fields {
		if f, g := &r.fields[i], &header[i]; f.Name != g.Name || f.Value != g.Value || f.Sensitive != g.Sensitive {
			return false
		}
	}
	return true
}

// appendFields appends a header block without frames.
func (m *Machine) appendFields(fields []Field) {
	r := &m.repeated
	known := r.begins(fields)
	if known {
		m.out = append(m.out, r.block...)
		fields = fields[len(r.fields):]
	}
	start, indexed, end, changed := len(m.out), 0, 0, false
	for i := range fields {
		at := len(m.out)
		_ = m.encoder.WriteField(fields[i]) // output does not fail
		switch b := m.out[at]; {
		case b&0x80 != 0: // RFC 7541, section 6.1: the field is in the table
			if indexed == i {
				indexed, end = i+1, len(m.out)
			}
		case b&0xc0 == 0x40, b&0xe0 == 0x20: // sections 6.2.1 and 6.3: the table changes
			changed = true
		}
	}
	switch {
	case changed:
		r.forget()
	case !known && indexed > 0:
		r.fields, r.block = append(r.fields[:0], fields[:indexed]...), append(r.block[:0], m.out[start:end]...)
	}
}
