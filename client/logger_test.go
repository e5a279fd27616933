package client_test

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// records is a log that a test can read.
type records chan slog.Record

func (records) Enabled(context.Context, slog.Level) bool { return true }

func (r records) Handle(_ context.Context, rec slog.Record) error {
	r <- rec
	return nil
}

func (r records) WithAttrs([]slog.Attr) slog.Handler { return r }

func (r records) WithGroup(string) slog.Handler { return r }

// callBack makes the server call a method of the client, which panics.
func callBack(t *testing.T, opts ...client.Option) {
	t.Helper()
	_, addr := serve(t, methods)
	c := dial(t, "tcp://"+addr, append(opts, client.WithFunc("Client.Upper", func(context.Context, *[]byte) (*[]byte, error) {
		panic("secret")
	}))...)
	_, err := client.Invoke[[]byte](t.Context(), c, "Test.CallBack", []byte{}, client.Codec("raw"))
	if tandem.CodeOf(err) != tandem.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// A panic of a method that the client serves is in the client's log.
func TestPanicIsLogged(t *testing.T) {
	r := make(records, 100)
	callBack(t, client.WithLogger(slog.New(r)))
	for {
		select {
		case rec := <-r:
			if rec.Message == "method panicked" && rec.Level == slog.LevelError {
				return
			}
		default:
			t.Fatal("not logged")
		}
	}
}

// Without a logger the panic is in slog's log, and nothing else is: not even failing connects.
func TestOnlyPanicsAreLoggedByDefault(t *testing.T) {
	for name, opts := range map[string][]client.Option{"none": nil, "nil": {client.WithLogger(nil)}} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			log.SetOutput(&text) // slog's default writes to it
			defer log.SetOutput(os.Stderr)
			err := dial(t, "unix://"+t.TempDir()+"/nobody", opts...).Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil)
			if tandem.CodeOf(err) != tandem.Unavailable {
				t.Errorf("got %v", err)
			}
			callBack(t, opts...)
			log.SetOutput(os.Stderr) // the default again, so that nothing writes to text
			if got := text.String(); strings.Count(got, "level=")+strings.Count(got, "ERROR") != 1 || !strings.Contains(got, "method panicked method=Client.Upper panic=secret") {
				t.Errorf("logged: %s", got)
			}
		})
	}
}
