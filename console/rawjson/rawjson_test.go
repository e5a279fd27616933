package rawjson

import (
	"errors"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// TestCalls calls methods whose types the caller does not know.
func TestCalls(t *testing.T) {
	network := transport.NewMemory()
	srv := server.New(server.WithCodecs(codec.JSON()))
	ln, err := network.Listen(t.Context(), "any")
	if err := errors.Join(err,
		srv.RegisterFunc("Any.Div", func(a, b int) (int, int) { return a / b, a % b }),
		srv.RegisterFunc("Any.Stop", func() {}),
		srv.RegisterFunc("Any.Same", func(a, b int64) (int64, int64) { return a, b })); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://any", client.WithTransport("mem", network), client.WithCodec(Codec()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(c.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
		<-served
	}()
	for _, call := range []struct{ method, args, want string }{
		{"Any.Div", `[17, 5]`, `[3,2]`},
		{"Any.Stop", `[]`, ``},
		{"Any.Same", `[9007199254740993,0]`, `[9007199254740993,0]`}, // no float64 has the first value
	} {
		args, err := Several([]byte(call.args))
		if err != nil {
			t.Fatal(err)
		}
		var reply []byte
		if err := c.Call(t.Context(), call.method, args, &reply); err != nil {
			t.Errorf("%s: %v", call.method, err)
			continue
		}
		if text, err := Text(reply); err != nil || text != call.want {
			t.Errorf("%s: %q, %v, want %q", call.method, text, err, call.want)
		}
	}
	if _, err := Several([]byte(`{}`)); err == nil {
		t.Error("an object is no list of arguments")
	}
}

func TestText(t *testing.T) {
	pack := func(values ...any) string {
		data, err := codec.Append(codec.JSON(), nil, tandem.Args(values))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, c := range []struct{ response, want string }{
		{"{\"C\":56}\n", `{"C":56}`},
		{"null", "null"},
		{pack(), ""},
		{pack(3, "x"), `[3,"x"]`},
	} {
		if got, err := Text([]byte(c.response)); err != nil || got != c.want {
			t.Errorf("%q: got %q, %v", c.response, got, err)
		}
	}
	for _, bad := range []string{"", "\x02\x01", "\xff\xff\xff\xff\x0f", "hello", pack(3) + "x"} {
		if got, err := Text([]byte(bad)); tandem.CodeOf(err) != tandem.Internal {
			t.Errorf("%q: got %q, %v", bad, got, err)
		}
	}
}
