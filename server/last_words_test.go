package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// badError panics in Error when it is a nil pointer.
type badError struct{ text string }

func (e *badError) Error() string { return e.text }

// badCompressor panics.
type badCompressor struct{ tandem.Compressor }

func (badCompressor) Name() string { return "bad" }

func (badCompressor) Compress([]byte, []byte) ([]byte, error) { panic("compressor") }

// The application's code that runs after a handler may panic, too: functions of OnEnd, an
// error's text, a compressor. The caller gets an error, and the server goes on.
func TestPanicsAfterTheHandler(t *testing.T) {
	var log bytes.Buffer
	srv := server.New(server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), server.WithCompressors(badCompressor{}))
	big := func() (*[]byte, error) { b := make([]byte, 10<<10); return &b, nil }
	handle := func(name string, f func(call *tandem.Call) (*[]byte, error)) error {
		return server.Handle(srv, name, func(ctx context.Context, _ *[]byte) (*[]byte, error) {
			return f(tandem.FromContext(ctx))
		})
	}
	err := errors.Join(
		handle("Bad.End", func(call *tandem.Call) (*[]byte, error) {
			call.OnEnd(func(error) { panic("end") })
			return new([]byte), nil
		}),
		handle("Bad.Error", func(*tandem.Call) (*[]byte, error) { return nil, (*badError)(nil) }),
		handle("Bad.Compressor", func(*tandem.Call) (*[]byte, error) { return big() }),
		handle("Good.OtherCompressor", func(call *tandem.Call) (*[]byte, error) {
			call.Compressor = "unheard of"
			return big()
		}),
		handle("Good.NoCompressor", func(call *tandem.Call) (*[]byte, error) {
			call.Compressor = ""
			return big()
		}))
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, srv, transport.TCP(), "127.0.0.1:0")
	c, err := client.Dial("tcp://"+addr.String(), client.WithCompression(client.Compression{Others: []tandem.Compressor{badCompressor{}}}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, x := range []struct {
		method, compressor string
		code               tandem.Code
	}{
		{"Bad.End", "", tandem.Internal},
		{"Bad.Error", "", tandem.Internal},
		{"Bad.Compressor", "bad", tandem.Internal},
		{"Good.OtherCompressor", "gzip", tandem.OK},
		{"Good.NoCompressor", "gzip", tandem.OK},
	} {
		var reply []byte
		err := c.Call(context.Background(), x.method, []byte{}, &reply, client.Codec("raw"), client.Compressor(x.compressor))
		if tandem.CodeOf(err) != x.code || err == nil && len(reply) != 10<<10 {
			t.Errorf("%s: %v and %d bytes", x.method, err, len(reply))
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if n := bytes.Count(log.Bytes(), []byte("method panicked")); n != 3 {
		t.Errorf("%d panics logged:\n%s", n, log.Bytes())
	}
}

// The log of a panic leads to the line that panicked.
func TestPanicIsLoggedWithItsStack(t *testing.T) {
	var log bytes.Buffer
	srv := server.New(server.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))))
	if err := server.Handle(srv, "Bad.Divide", divideSeven); err != nil {
		t.Fatal(err)
	}
	addr := serve(t, srv, transport.TCP(), "127.0.0.1:0")
	c, err := client.Dial("tcp://" + addr.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(context.Background(), "Bad.Divide", 0, nil); tandem.CodeOf(err) != tandem.Internal {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(c.Close(), srv.Close()); err != nil {
		t.Error(err)
	}
	var entry struct {
		Method string `json:"method"`
		Panic  string `json:"panic"`
		Stack  string `json:"stack"`
	}
	if err := json.NewDecoder(&log).Decode(&entry); err != nil {
		t.Fatal(err)
	}
	if entry.Method != "Bad.Divide" || !strings.Contains(entry.Panic, "divide by zero") {
		t.Errorf("logged %+v", entry)
	}
	if !strings.Contains(entry.Stack, "divideSeven") || !strings.Contains(entry.Stack, "last_words_test.go:") {
		t.Errorf("the stack does not lead to the handler:\n%s", entry.Stack)
	}
}

func divideSeven(_ context.Context, n *int) (*int, error) {
	return new(7 / *n), nil
}
