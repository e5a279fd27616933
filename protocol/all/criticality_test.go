package all_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

// The criticality of a call is transmitted by every protocol that has metadata.
func TestCriticalityCrosses(t *testing.T) {
	srv := server.New(server.WithProtocols(all.New()...))
	err := srv.RegisterFunc("Test.Class", func(ctx context.Context, _ *wrapperspb.StringValue) *wrapperspb.StringValue {
		return wrapperspb.String(tandem.FromContext(ctx).Metadata.Get(tandem.CriticalityKey))
	})
	if err != nil {
		t.Fatal(err)
	}
	address := listening(t, srv)
	for _, scheme := range []string{"tcp", "grpc", "connect", "rpcx", "jsonrpc+http"} {
		c, err := client.Dial(scheme+"://"+address, client.WithProtocols(all.Clients()...))
		if err != nil {
			t.Fatal(err)
		}
		var class wrapperspb.StringValue
		if err := c.Call(t.Context(), "Test.Class", wrapperspb.String(""), &class, client.Criticality(tandem.Sheddable)); err != nil || class.GetValue() != string(tandem.Sheddable) {
			t.Errorf("%s: %q, %v", scheme, class.GetValue(), err)
		}
		_ = c.Close()
	}
}

// The caller's deadline is transmitted by every protocol that has a field for it.
func TestDeadlineCrosses(t *testing.T) {
	srv := server.New(server.WithProtocols(all.New()...))
	err := srv.RegisterFunc("Test.Left", func(ctx context.Context, _ *wrapperspb.StringValue) *wrapperspb.StringValue {
		if deadline, ok := ctx.Deadline(); ok {
			return wrapperspb.String(time.Until(deadline).Round(time.Minute).String())
		}
		return wrapperspb.String("for ever")
	})
	if err != nil {
		t.Fatal(err)
	}
	address := listening(t, srv)
	for _, scheme := range []string{"tcp", "grpc", "connect", "rpcx", "jsonrpc+http"} {
		c, err := client.Dial(scheme+"://"+address, client.WithProtocols(all.Clients()...))
		if err != nil {
			t.Fatal(err)
		}
		var left wrapperspb.StringValue
		if err := c.Call(t.Context(), "Test.Left", wrapperspb.String(""), &left, client.Timeout(10*time.Minute)); err != nil || left.GetValue() != "10m0s" {
			t.Errorf("%s: %q, %v", scheme, left.GetValue(), err)
		}
		_ = c.Close()
	}
}
