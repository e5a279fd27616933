package codecs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/rpc"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/bench/micro"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/protobuf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	plan := Plan{Callers: []int{3}}
	report, err := micro.Run(t.Context(), micro.Settings{Count: 1, Time: time.Millisecond}, io.Discard, plan.Source())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		if own := k.name == "gob" || k.name == "json"; own != (k.theirs == "its own") {
			t.Errorf("with %s net/rpc has %s codec", k.name, k.theirs)
		}
	}
	if want := len(kinds()) * 4; len(report.Results) != want {
		t.Errorf("%d benchmarks, want %d", len(report.Results), want)
	}
	for name, samples := range report.Results {
		if samples[0].NS <= 0 {
			t.Errorf("%s: %+v", name, samples[0])
		}
	}
	for _, table := range plan.Tables(report.Results) {
		for _, row := range table.Rows {
			if len(row) != len(table.Heads) {
				t.Errorf("%s: row %q below %q", table.Title, row, table.Heads)
			}
		}
	}
}

// A call that is not answered rightly is not measured.
func TestAWrongAnswerIsAnError(t *testing.T) {
	k := body[Record]{
		codec: codec.Generated(), make: newRecord,
		answer: func(*Record) {},
		share:  func(dst, src *Record) { *dst = *src },
		check: func(m *Record) error {
			if m.Field2 == newRecord().Field2 {
				return errAnswer
			}
			return nil
		},
	}
	for name, start := range map[string]func() (*pair, error){
		ours:   func() (*pair, error) { return tandemPair(k) },
		theirs: func() (*pair, error) { return netrpcPair(k) },
	} {
		p, err := start()
		if err != nil {
			t.Fatal(err)
		}
		if err := together([]func() error{p.newCaller(), p.newCaller()}, 10); !errors.Is(err, errAnswer) {
			t.Errorf("%s: error %v, want that the answer is wrong", name, err)
		}
		if err := p.close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecord(t *testing.T) {
	want := newRecord()
	want.Field5 = []uint64{1, 1 << 60}
	want.Field1 = strings.Repeat("x", 300)
	b, err := want.Marshal(nil)
	if err != nil || uint64(len(b)) != want.Size() {
		t.Fatalf("%d bytes, the size is given as %d: %v", len(b), want.Size(), err)
	}
	got := &Record{Field5: []uint64{7}}
	if n, err := got.Unmarshal(b); err != nil || n != want.Size() || !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %d bytes to %+v, %v; want %+v", n, got, err, want)
	}
	for i := range b {
		if _, err := new(Record).Unmarshal(b[:i]); err == nil {
			t.Errorf("%d of %d bytes are enough", i, len(b))
		}
	}
	for f, v := range reflect.ValueOf(newRecord()).Elem().Fields() {
		if v.IsZero() && f.Name != "Field5" {
			t.Errorf("%s is not set", f.Name)
		}
	}
}

// The type without generated methods goes through protobuf's own runtime, and
// its bytes are the same.
func TestReflectedHasNoGeneratedMethods(t *testing.T) {
	m := any((*Reflected)(message.New()))
	if _, ok := m.(interface{ MarshalVT() ([]byte, error) }); ok {
		t.Error("it has vtprotobuf's")
	}
	b, err := codec.Append(protobuf.Codec(), nil, m)
	back := new(message.BenchmarkMessage)
	if err != nil || back.UnmarshalVT(b) != nil || !proto.Equal(back, message.New()) {
		t.Errorf("encoded to %d bytes, %v: %v", len(b), err, back)
	}
}

// Failing is a service whose method fails.
type Failing struct{}

// Say fails.
func (Failing) Say(_, _ *Record) error { return errors.New("not today") }

func TestAnErrorCrossesAndHarmsNoOtherCall(t *testing.T) {
	srv := rpc.NewServer()
	if err := errors.Join(srv.RegisterName("Failing", Failing{}), srv.RegisterName("Raw", Service[[]byte]{body[[]byte]{
		answer: func(*[]byte) {}, share: func(dst, src *[]byte) { *dst = *src },
	}})); err != nil {
		t.Fatal(err)
	}
	ways := framed(codec.Raw())
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() { ways.serve(srv, theirs); close(done) }()
	c := ways.client(ours)
	if err := c.Call("Failing.No", []byte("x"), new([]byte)); err == nil {
		t.Error("an unknown method answered")
	}
	var reply []byte
	if err := c.Call("Raw.Say", []byte("hello"), &reply); err != nil || string(reply) != "hello" {
		t.Errorf("the next call: %q, %v", reply, err)
	}
	_ = c.Close()
	<-done
}

func TestFramesThatLieAreRefused(t *testing.T) {
	frame := func(length uint32, rest ...byte) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, length), rest...)
	}
	for want, sent := range map[string][]byte{
		"1048576": frame(1 << 30),
		"cut off": frame(2, 1, 50),
		"EOF":     frame(5, 1),
		"2 bytes": frame(2, 0x80, 0x80),
	} {
		f := newFraming(readFrom{r: bytes.NewReader(sent)}, codec.Raw())
		if _, _, err := f.readHead(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// readFrom is a connection that is only read.
type readFrom struct {
	net.Conn
	r io.Reader
}

func (r readFrom) Read(p []byte) (int, error) { return r.r.Read(p) }

func TestTheSlowerIsNamed(t *testing.T) {
	r := micro.Results{}
	for _, k := range kinds() {
		r[callName(k.name, 1, ours)], r[callName(k.name, 1, theirs)] = []micro.Sample{{NS: 10}}, []micro.Sample{{NS: 20}}
	}
	if notes := callTable(r, 1).Notes; len(notes) != 1 || strings.Contains(notes[0], "MISSED") {
		t.Errorf("all is well, but %q", notes)
	}
	r[callName("gob", 1, theirs)][0].NS = 9
	if notes := callTable(r, 1).Notes; len(notes) != 1 || !strings.Contains(notes[0], "with gob net/rpc takes 0.90") {
		t.Errorf("gob is slower, but %q", notes)
	}
}

func TestCheck(t *testing.T) {
	for _, p := range []Plan{{}, {[]int{1, 0}}} {
		if p.Check() == nil {
			t.Errorf("%+v can be measured", p)
		}
	}
	if err := (Plan{[]int{1}}).Check(); err != nil {
		t.Error(err)
	}
}
