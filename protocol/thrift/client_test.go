package thrift_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/thrift"
	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
	"github.com/tandem-rpc/tandem/server"
)

// office implements the generated interface.
type office struct {
	desk.Desk // methods that are not overridden panic

	notes chan string
}

func (*office) Add(_ context.Context, a, b int32) (int32, error) { return a + b, nil }

func (*office) Divide(_ context.Context, a, b int64) (int64, error) {
	switch b {
	case 0:
		return 0, fmt.Errorf("dividing: %w", &desk.Missing{Number: 7, Where: "the drawer"})
	case -1:
		return 0, &desk.Locked{Key: "brass"}
	}
	return a / b, nil
}

func (*office) Mirror(_ context.Context, paper *desk.Paper) (*desk.Paper, error) { return paper, nil }

func (*office) KindOf(_ context.Context, paper *desk.Paper) (desk.Kind, error) {
	return paper.Kind, nil
}

func (*office) Pages(_ context.Context, paper *desk.Paper) ([]int32, error) {
	return append([]int32(nil), paper.Pages...), nil // nil if there are none
}

func (*office) Copies(_ context.Context, paper *desk.Paper, count int32) ([]*desk.Paper, error) {
	return slices.Repeat([]*desk.Paper{paper}, int(count)), nil
}

func (*office) ByTitle(_ context.Context, papers []*desk.Paper) (map[string]*desk.Paper, error) {
	m := map[string]*desk.Paper{}
	for _, p := range papers {
		m[p.Title] = p
	}
	return m, nil
}

func (*office) Blob(_ context.Context, data []byte) ([]byte, error) { return data, nil }

func (*office) Check(_ context.Context, number int32) error {
	if number == 0 {
		return &desk.Locked{Key: "iron"}
	}
	return nil
}

func (*office) Fail(_ context.Context, how string) error {
	switch how {
	case "panic":
		panic("on purpose")
	case "code":
		return tandem.Errorf(tandem.NotFound, "no such paper")
	case "undeclared":
		return &desk.Missing{Number: 1}
	}
	return errors.New(how)
}

func (o *office) Note(_ context.Context, text string) error {
	o.notes <- text
	return errors.New("nobody hears this")
}

func (*office) Who(ctx context.Context) (string, error) {
	call := tandem.FromContext(ctx)
	call.Trailer = tandem.Metadata{"served-by": {"the", "office"}}
	return call.Peer.Protocol + " " + call.Codec + " " + call.Metadata.Get("authorization"), nil
}

func (*office) Ping(context.Context) error { return nil }

// declarations are the options of the methods that need them.
func declarations() []thrift.Option {
	return []thrift.Option{
		thrift.WithMethod("Desk.Divide", (*desk.DeskDivideArgs)(nil), (*desk.DeskDivideResult)(nil)),
		thrift.WithMethod("Desk.Pages", nil, (*desk.DeskPagesResult)(nil)),
		thrift.WithMethod("Desk.Check", nil, (*desk.DeskCheckResult)(nil)),
	}
}

// serve runs a server until the test ends, and returns its address.
func serve(t testing.TB, service any, opts ...server.Option) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, ln, service, opts...)
	return ln.Addr().String()
}

func serveOn(t testing.TB, ln net.Listener, service any, opts ...server.Option) {
	t.Helper()
	srv := server.New(append([]server.Option{
		server.WithProtocols(thrift.New(append(declarations(), thrift.WithService("Desk"), thrift.WithOneWay("Desk.Note"))...)),
		server.WithLogger(slog.New(slog.DiscardHandler)),
	}, opts...)...)
	if err := srv.RegisterName("Desk", service); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
}

// dialects are the transports and encodings that clients use.
var dialects = map[string]func(apache.TTransport, *apache.TConfiguration) apache.TProtocol{
	"framed binary": func(t apache.TTransport, c *apache.TConfiguration) apache.TProtocol {
		return apache.NewTBinaryProtocolConf(apache.NewTFramedTransportConf(t, c), c)
	},
	"framed compact": func(t apache.TTransport, c *apache.TConfiguration) apache.TProtocol {
		return apache.NewTCompactProtocolConf(apache.NewTFramedTransportConf(t, c), c)
	},
	"buffered binary": func(t apache.TTransport, c *apache.TConfiguration) apache.TProtocol {
		return apache.NewTBinaryProtocolConf(apache.NewTBufferedTransport(t, 8192), c)
	},
	"buffered compact": func(t apache.TTransport, c *apache.TConfiguration) apache.TProtocol {
		return apache.NewTCompactProtocolConf(apache.NewTBufferedTransport(t, 8192), c)
	},
	"header binary":  headerOf(apache.THeaderProtocolBinary),
	"header compact": headerOf(apache.THeaderProtocolCompact),
	"header zlib":    headerOf(apache.THeaderProtocolCompact, apache.TransformZlib),
}

func headerOf(id apache.THeaderProtocolID, transforms ...apache.THeaderTransformID) func(apache.TTransport, *apache.TConfiguration) apache.TProtocol {
	return func(t apache.TTransport, c *apache.TConfiguration) apache.TProtocol {
		c.THeaderProtocolID, c.THeaderTransforms = apache.THeaderProtocolIDPtrMust(id), transforms
		return apache.NewTHeaderProtocolConf(t, c)
	}
}

// dial returns the protocol of a client that uses that dialect.
func dial(t testing.TB, address, dialect string) apache.TProtocol {
	t.Helper()
	config := &apache.TConfiguration{ConnectTimeout: time.Minute, SocketTimeout: time.Minute}
	socket := apache.NewTSocketConf(address, config)
	p := dialects[dialect](socket, config)
	if err := socket.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return p
}

// deskAt returns a generated client of the service.
func deskAt(t testing.TB, address, dialect string) *desk.DeskClient {
	t.Helper()
	p := dial(t, address, dialect)
	return desk.NewDeskClient(apache.NewTStandardClient(p, p))
}

func samplePaper() *desk.Paper {
	note := "by hand"
	return &desk.Paper{
		Number: -5, Title: "Über", Note: &note, Kind: desk.Kind_RARE, Seal: []byte{0, 255}, Tags: []string{"", "a", "b"},
		Pages: []int32{3, 1, 2}, Sums: map[string]int64{"x": 1 << 40, "": -1}, Answers: &desk.Paper{Title: "older", Answers: &desk.Paper{}},
		Signed: true, Copies: -128, Year: 1999, Weight: 0.25, Filed: 1 << 60,
	}
}

// each runs a test for every dialect and both kinds of services.
func each(t *testing.T, test func(t *testing.T, c *desk.DeskClient, notes chan string)) {
	for kind, service := range map[string]func(chan string) any{
		"generated": func(notes chan string) any { return &office{notes: notes} },
		"tagged":    func(notes chan string) any { return &counter{notes: notes} },
	} {
		for _, dialect := range slices.Sorted(maps.Keys(dialects)) {
			t.Run(kind+" "+dialect, func(t *testing.T) {
				notes := make(chan string, 1)
				test(t, deskAt(t, serve(t, service(notes)), dialect), notes)
			})
		}
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Values of every type are transmitted in both directions.
func TestValues(t *testing.T) {
	each(t, func(t *testing.T, c *desk.DeskClient, _ chan string) {
		ctx := t.Context()
		sum, err := c.Add(ctx, 1<<30, -5)
		equal(t, "add", []any{sum, err}, []any{int32(1<<30 - 5), nil})
		got, err := c.Mirror(ctx, samplePaper())
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got.Pages) // a set
		want := samplePaper()
		slices.Sort(want.Pages)
		if !got.Equals(want) {
			t.Errorf("mirror: %v, want %v", got, want)
		}
		kind, err := c.KindOf(ctx, samplePaper())
		equal(t, "kind_of", []any{kind, err}, []any{desk.Kind_RARE, nil})
		copies, err := c.Copies(ctx, &desk.Paper{Title: "twice"}, 2)
		if err != nil || len(copies) != 2 || copies[1].Title != "twice" {
			t.Errorf("copies: %v, %v", copies, err)
		}
		titles, err := c.ByTitle(ctx, []*desk.Paper{{Title: "a", Number: 1}, {Title: "b", Number: 2}})
		if err != nil || len(titles) != 2 || titles["b"].Number != 2 {
			t.Errorf("by_title: %v, %v", titles, err)
		}
		if err := c.Ping(ctx); err != nil {
			t.Errorf("ping: %v", err)
		}
	})
}

// Results that are sets, and empty ones.
func TestSets(t *testing.T) {
	each(t, func(t *testing.T, c *desk.DeskClient, _ chan string) {
		pages, err := c.Pages(t.Context(), samplePaper())
		slices.Sort(pages)
		equal(t, "pages", []any{pages, err}, []any{[]int32{1, 2, 3}, nil})
		pages, err = c.Pages(t.Context(), &desk.Paper{})
		equal(t, "no pages, which are not nothing", []any{pages, err}, []any{[]int32{}, nil})
	})
}

func TestExceptions(t *testing.T) {
	each(t, func(t *testing.T, c *desk.DeskClient, _ chan string) {
		ctx := t.Context()
		quotient, err := c.Divide(ctx, 42, 6)
		equal(t, "divide", []any{quotient, err}, []any{int64(7), nil})
		_, err = c.Divide(ctx, 42, 0)
		equal(t, "the first exception", err, &desk.Missing{Number: 7, Where: "the drawer"})
		_, err = c.Divide(ctx, 42, -1)
		equal(t, "the other", err, &desk.Locked{Key: "brass"})
		equal(t, "of a void method", c.Check(ctx, 0), &desk.Locked{Key: "iron"})
		equal(t, "none", c.Check(ctx, 1), nil)
	})
}

// Undeclared errors, and malformed requests, become a TApplicationException; the connection
// stays open.
func TestApplicationExceptions(t *testing.T) {
	each(t, func(t *testing.T, c *desk.DeskClient, _ chan string) {
		for how, want := range map[string]string{
			"plain words": "plain words", "code": "not found: no such paper", "panic": "internal: method Desk.Fail panicked",
			"undeclared": "Missing({Number:1 Where:})",
		} {
			err := c.Fail(t.Context(), how)
			e, ok := errors.AsType[apache.TApplicationException](err)
			if !ok || e.TypeId() != apache.INTERNAL_ERROR || !strings.Contains(e.Error(), want) {
				t.Errorf("fail(%q): %T %v, want %q", how, err, err, want)
			}
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("after all: %v", err)
		}
	})
}

func TestOneWay(t *testing.T) {
	each(t, func(t *testing.T, c *desk.DeskClient, notes chan string) {
		for i := range 3 {
			if err := c.Note(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			if err := c.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			select { // the call must have ended before the next one began
			case got := <-notes:
				equal(t, "note", got, fmt.Sprint(i))
			default:
				t.Error("a call overtook the one-way call before it")
			}
		}
	})
}

func TestLargeMessages(t *testing.T) {
	each(t, func(t *testing.T, c *desk.DeskClient, _ chan string) {
		if err := c.Ping(t.Context()); err != nil { // its first bytes come in time; those of a large message are encoded first
			t.Fatal(err)
		}
		blob := make([]byte, 300<<10) // more than any buffer
		for i := range blob {
			blob[i] = byte(i * i >> 7)
		}
		got, err := c.Blob(t.Context(), blob)
		if err != nil || !slices.Equal(got, blob) {
			t.Errorf("%d bytes came back, %v", len(got), err)
		}
	})
}
