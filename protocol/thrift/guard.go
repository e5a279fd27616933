package thrift

import (
	"context"
	"errors"
	"fmt"

	apache "github.com/apache/thrift/lib/go/thrift"
)

// guard is a protocol for generated code, and for ours. It rejects sizes of containers that
// the remaining bytes can't hold, since generated code allocates as many elements as a
// container claims. It also limits the nesting of what is read and written to 64.
type guard struct {
	apache.TProtocol

	from   apache.ReadSizeProvider
	format format
	depth  int
	claims []claim // claims of the containers that are being read, the outermost first

	expect  func(n int64) error // reserves memory for what is read; nil for no limit
	pending int64               // bytes that expect has not reserved yet
	denied  error               // expect's error, which Apache's code converts to text
	largest int64               // size of the largest struct that generated code may make many of
}

// chargeStep is how many bytes are collected before expect is called.
const chargeStep = 16 << 10

// charge reserves n bytes of memory before they are allocated.
func (g *guard) charge(n int64) error {
	if g.pending += n; g.expect == nil || g.pending < chargeStep {
		return nil
	}
	n, g.pending = g.pending, 0
	g.denied = g.expect(n)
	return g.denied
}

// structSize is the minimum that is reserved for a struct, in bytes.
const structSize = 128

// slot returns the size of a container's element in memory, without what it refers to.
func slot(t apache.TType) int64 {
	switch t {
	case apache.BOOL, apache.BYTE:
		return 1
	case apache.I16:
		return 2
	case apache.I32:
		return 4
	case apache.STRING, apache.UUID:
		return 16
	case apache.LIST:
		return 24
	}
	return 8
}

// claim is the number of bytes that the elements of a container need at least.
type claim struct {
	need uint64 // bytes that the elements need at least
	left uint64 // bytes that were left when the container began
}

// config is for Apache's protocols: guard limits what they read.
var config = &apache.TConfiguration{MaxMessageSize: maxFrame}

// newGuard returns a protocol that reads from the transport and writes to it.
func newGuard(f format, t apache.TTransport) *guard {
	g := &guard{from: t, format: f}
	if f == formatCompact {
		g.TProtocol = apache.NewTCompactProtocolConf(t, config)
	} else {
		g.TProtocol = apache.NewTBinaryProtocolConf(t, config)
	}
	return g
}

var errNesting = fmt.Errorf("nested more than %d deep", maxNesting)

func (g *guard) enter() error {
	if g.depth == maxNesting {
		return apache.NewTProtocolExceptionWithType(apache.DEPTH_LIMIT, errNesting)
	}
	g.depth++
	return nil
}

// open begins a container of size elements that take at least each bytes. Bytes that the
// elements of the containers around it need at least are not available to it.
func (g *guard) open(size int, each uint64) error {
	if err := g.enter(); err != nil {
		return err
	}
	left := g.from.RemainingBytes()
	free := left
	for _, c := range g.claims {
		if read := c.left - left; read < c.need {
			free -= min(free, c.need-read)
		}
	}
	if size < 0 || uint64(size) > free/each {
		return apache.NewTProtocolExceptionWithType(apache.SIZE_LIMIT,
			fmt.Errorf("a container of %d elements, %d bytes are left", size, left))
	}
	g.claims = append(g.claims, claim{uint64(size) * each, left})
	return nil
}

// shut ends the innermost container.
func (g *guard) shut() error {
	if len(g.claims) == 0 {
		return errors.New("the end of a container that has not begun")
	}
	g.depth--
	g.claims = g.claims[:len(g.claims)-1]
	return nil
}

// least returns the minimum size of an encoded value, in bytes.
func (g *guard) least(t apache.TType) uint64 {
	switch t {
	case apache.DOUBLE:
		return 8
	case apache.UUID:
		return 16
	}
	if g.format == formatCompact {
		return 1
	}
	switch t {
	case apache.I16:
		return 2
	case apache.I32, apache.STRING:
		return 4
	case apache.I64:
		return 8
	case apache.LIST, apache.SET:
		return 5
	case apache.MAP:
		return 6
	}
	return 1
}

// Skip reads and discards a value.
func (g *guard) Skip(ctx context.Context, t apache.TType) error {
	return apache.Skip(ctx, g, t, maxNesting)
}

func (g *guard) enterStruct() error {
	if err := g.enter(); err != nil {
		return err
	}
	return g.charge(max(structSize, g.largest))
}

func (g *guard) ReadStructBegin(ctx context.Context) (string, error) {
	if err := g.enterStruct(); err != nil {
		return "", err
	}
	return g.TProtocol.ReadStructBegin(ctx)
}

func (g *guard) ReadString(ctx context.Context) (string, error) {
	s, err := g.TProtocol.ReadString(ctx)
	if err == nil {
		err = g.charge(int64(len(s)))
	}
	return s, err
}

func (g *guard) ReadBinary(ctx context.Context) ([]byte, error) {
	b, err := g.TProtocol.ReadBinary(ctx)
	if err == nil {
		err = g.charge(int64(len(b)))
	}
	return b, err
}

func (g *guard) ReadStructEnd(ctx context.Context) error {
	g.depth--
	return g.TProtocol.ReadStructEnd(ctx)
}

func (g *guard) ReadListBegin(ctx context.Context) (apache.TType, int, error) {
	t, size, err := g.TProtocol.ReadListBegin(ctx)
	if err == nil {
		err = g.open(size, g.least(t))
	}
	if err == nil {
		err = g.charge(int64(size) * slot(t))
	}
	return t, size, err
}

func (g *guard) ReadSetBegin(ctx context.Context) (apache.TType, int, error) {
	t, size, err := g.TProtocol.ReadSetBegin(ctx)
	if err == nil {
		err = g.open(size, g.least(t))
	}
	if err == nil {
		err = g.charge(int64(size) * 2 * slot(t))
	}
	return t, size, err
}

func (g *guard) ReadMapBegin(ctx context.Context) (key, value apache.TType, size int, err error) {
	key, value, size, err = g.TProtocol.ReadMapBegin(ctx)
	if err == nil {
		err = g.open(size, g.least(key)+g.least(value))
	}
	if err == nil {
		err = g.charge(int64(size) * 2 * (slot(key) + slot(value)))
	}
	return key, value, size, err
}

func (g *guard) ReadListEnd(context.Context) error { return g.shut() } // Apache's methods do nothing
func (g *guard) ReadSetEnd(context.Context) error  { return g.shut() }
func (g *guard) ReadMapEnd(context.Context) error  { return g.shut() }

func (g *guard) WriteStructBegin(ctx context.Context, name string) error {
	if err := g.enter(); err != nil {
		return err
	}
	return g.TProtocol.WriteStructBegin(ctx, name)
}

func (g *guard) WriteStructEnd(ctx context.Context) error {
	g.depth--
	return g.TProtocol.WriteStructEnd(ctx)
}
