package http2

import (
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2/hpack"
)

// tableSize is how much of what was sent before header blocks may refer to, in both directions.
const tableSize = 4096

// Block is a decoded header or trailer.
type Block struct {
	Method, Scheme, Authority, Path string // of a request
	Status                          int    // of a response

	Fields   []Field
	Length   int64 // of the body, as Content-Length says; negative if there is none
	TooLarge bool  // it has more than Config.MaxHeader bytes, and Fields are not complete

	named uint8 // the pseudo-fields that have come
}

// Pseudo-fields that have come.
const (
	namedMethod = 1 << iota
	namedScheme
	namedAuthority
	namedPath
	namedStatus
)

func (b *Block) clear() {
	clear(b.Fields)
	*b = Block{Fields: b.Fields[:0], Length: -1}
}

// headerReader decodes header blocks. All blocks of a connection are decoded, also those of streams
// that are refused: they change the table that later ones refer to.
type headerReader struct {
	decoder *hpack.Decoder
	most    int

	stream uint32 // whose header goes on in CONTINUATION; 0 for none
	end    bool   // the flag END_STREAM of its HEADERS
	bytes  int    // that have come of it

	block   *Block
	trailer bool
	client  bool
	size    int
	regular bool   // a field that is not a pseudo-field has come
	bad     string // why the block is malformed; "" if it is not
}

func (r *headerReader) init(most int) {
	r.most = most
	r.decoder = hpack.NewDecoder(tableSize, r.add)
	r.decoder.SetMaxStringLength(max(most, tableSize))
}

// begin prepares for the next block.
func (r *headerReader) begin(client, trailer bool) {
	r.block = blocks.Get().(*Block) //nolint:forcetypeassert // nothing else is put
	r.client, r.trailer, r.size, r.regular, r.bad, r.bytes = client, trailer, 0, false, "", 0
	r.decoder.SetEmitEnabled(true)
}

// read decodes a part of a block.
func (r *headerReader) read(part []byte, last bool) error {
	// One byte may stand for a long field that the table has: what is decoded is bounded by add,
	// and what comes by this.
	if r.bytes += len(part); r.bytes > 2*r.most+tableSize {
		return fatal(EnhanceYourCalm, "a header of more than %d bytes", r.bytes)
	}
	_, err := r.decoder.Write(part)
	if err == nil && last {
		err = r.decoder.Close()
	}
	if err != nil {
		return fatal(CompressionError, "%v", err)
	}
	return nil
}

// fieldOverhead is what a field counts beyond its bytes (RFC 9113, section 6.5.2).
const fieldOverhead = 32

// add takes a field that was decoded.
func (r *headerReader) add(f Field) {
	b := r.block
	if r.size += len(f.Name) + len(f.Value) + fieldOverhead; r.size > r.most {
		b.TooLarge = true
		r.decoder.SetEmitEnabled(false)
		return
	}
	switch {
	case r.bad != "":
	case strings.HasPrefix(f.Name, ":"):
		r.addPseudo(f)
	case !validName(f.Name):
		r.bad = "the field name " + strconv.Quote(f.Name)
	case !validValue(f.Value):
		r.bad = "the value of the field " + f.Name
	default:
		r.addRegular(f)
	}
}

func (r *headerReader) addPseudo(f Field) {
	b := r.block
	var to *string
	var bit uint8
	switch f.Name {
	case ":method":
		to, bit = &b.Method, namedMethod
	case ":scheme":
		to, bit = &b.Scheme, namedScheme
	case ":authority":
		to, bit = &b.Authority, namedAuthority
	case ":path":
		to, bit = &b.Path, namedPath
	case ":status":
		bit = namedStatus
	}
	switch {
	case r.trailer, r.regular, bit == 0, b.named&bit != 0, r.client != (bit == namedStatus), !validValue(f.Value):
		r.bad = "the pseudo-field " + strconv.Quote(f.Name)
		return
	case to != nil:
		*to = f.Value
	default:
		n, err := strconv.Atoi(f.Value)
		if err != nil || len(f.Value) != 3 || n < 100 {
			r.bad = "the status " + strconv.Quote(f.Value)
		}
		b.Status = n
	}
	b.named |= bit
}

func (r *headerReader) addRegular(f Field) {
	b := r.block
	r.regular = true
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		r.bad = "the field " + f.Name + " of HTTP/1.1"
		return
	case "te":
		if f.Value != "trailers" {
			r.bad = "the field te: " + strconv.Quote(f.Value)
			return
		}
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil || b.Length >= 0 && b.Length != int64(n) {
			r.bad = "the field content-length: " + strconv.Quote(f.Value)
			return
		}
		b.Length = int64(n)
	}
	b.Fields = append(b.Fields, f)
}

// finish returns the block, or why it is malformed.
func (r *headerReader) finish() (b *Block, bad string) {
	b, r.block = r.block, nil
	switch {
	case r.bad != "" || r.trailer || b.TooLarge:
	case r.client:
		if b.named&namedStatus == 0 {
			r.bad = "a response without a status"
		}
	case strings.Contains(b.Authority, "@"): // RFC 9113, section 8.3.1
		r.bad = "an authority with a user"
	case b.Method == http.MethodConnect:
		if b.named&(namedScheme|namedPath) != 0 || b.Authority == "" {
			r.bad = "CONNECT with a scheme or path, or without an authority"
		}
	case b.Method == "" || b.Scheme == "" || b.Path == "":
		r.bad = "a request without a method, scheme or path"
	case b.Path[0] != '/' && b.Path != "*":
		r.bad = "the path " + strconv.Quote(b.Path)
	}
	return b, r.bad
}

// validName reports whether a field may have this name: a token without capitals (RFC 9113,
// section 8.2.1).
func validName(name string) bool {
	for i := range len(name) {
		if !nameBytes[name[i]] {
			return false
		}
	}
	return name != ""
}

// validValue reports whether a field may have this value.
func validValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return value == "" || !blank(value[0]) && !blank(value[len(value)-1])
}

// ValidField reports whether a message may have such a field. The name must be in lower case.
func ValidField(name, value string) bool { return validName(name) && validValue(value) }

func blank(c byte) bool { return c == ' ' || c == '\t' }

// nameBytes has the bytes of names.
var nameBytes = func() (table [256]bool) { //nolint:gochecknoglobals // a table
	for _, c := range "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz" {
		table[c] = true
	}
	return table
}()

// onHeaders begins a header or trailer.
func (m *Machine) onHeaders(f *frame) error {
	if f.stream == 0 {
		return fatal(ProtocolError, "HEADERS without a stream")
	}
	if err := f.unpad(); err != nil {
		return err
	}
	bad := ""
	if f.has(flagPriority) {
		if len(f.payload) < 5 {
			return fatal(FrameSizeError, "a priority of %d bytes", len(f.payload))
		}
		if dependsOnItself(f) {
			bad = "a stream that depends on itself"
		}
		f.payload = f.payload[5:]
	}
	st := m.streams[f.stream]
	switch {
	case st != nil:
	case m.idle(f.stream) && !m.client && f.stream%2 == 1: // a request
	case m.idle(f.stream):
		return fatal(ProtocolError, "HEADERS of stream %d, which %s can't begin", f.stream, m.peer())
	case !m.client && !m.wasReset(f.stream) && !m.leaving:
		return fatal(ProtocolError, "HEADERS of stream %d, which has ended", f.stream)
	}
	m.reading.begin(m.client, st != nil && st.begun)
	m.reading.bad = bad
	m.reading.end = f.has(flagEndStream)
	return m.readHeader(f)
}

func (m *Machine) peer() string {
	if m.client {
		return "a server"
	}
	return "a client"
}

func (m *Machine) onContinuation(f *frame) error {
	if m.reading.stream == 0 {
		return fatal(ProtocolError, "CONTINUATION without HEADERS")
	}
	if err := m.spend(1); err != nil {
		return err
	}
	return m.readHeader(f)
}

func (m *Machine) readHeader(f *frame) error {
	r := &m.reading
	last := f.has(flagEndHeaders)
	if err := r.read(f.payload, last); err != nil {
		return err
	}
	if !last {
		r.stream = f.stream
		return nil
	}
	r.stream = 0
	b, bad := r.finish()
	if b.TooLarge && !m.client {
		if err := m.spend(1 + r.bytes/perFrame); err != nil {
			return err
		}
	}
	return m.onBlock(f.stream, b, r.end, bad)
}

// blocks has those that are not used any more.
var blocks = sync.Pool{New: func() any { return &Block{Length: -1} }} //nolint:gochecknoglobals // shared memory

// Free takes a block back that is not used any more. It may be called at any time.
func (b *Block) Free() {
	const large = 64
	if cap(b.Fields) <= large {
		b.clear()
		blocks.Put(b)
	}
}

// appendBlock appends HEADERS, and CONTINUATION if they don't fit into one frame.
func (m *Machine) appendBlock(stream uint32, fields []Field, end bool) {
	at := len(m.out)
	m.out = appendHead(m.out, 0, frameHeaders, 0, stream)
	m.appendFields(fields)
	n := len(m.out) - at - headLen
	flags := byte(0)
	if end {
		flags = flagEndStream
	}
	if n > m.peerFrame {
		m.splitBlock(at, stream, flags)
		return
	}
	head := m.out[at:at:cap(m.out)]
	appendHead(head, n, frameHeaders, flags|flagEndHeaders, stream)
}

// splitBlock makes several frames of a block that begins after a head at m.out[at].
func (m *Machine) splitBlock(at int, stream uint32, flags byte) {
	block := append([]byte(nil), m.out[at+headLen:]...)
	m.out = m.out[:at]
	kind := byte(frameHeaders)
	for len(block) > 0 {
		n := min(len(block), m.peerFrame)
		if n == len(block) {
			flags |= flagEndHeaders
		}
		m.out = append(appendHead(m.out, n, kind, flags, stream), block[:n]...)
		block, kind, flags = block[n:], frameContinuation, 0
	}
}
