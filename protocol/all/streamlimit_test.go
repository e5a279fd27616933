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

// While processors are short, no more streams run than the limit allows, over any protocol
// with streams: another one is refused as not executed, until one ends.
func TestStreamsHaveALimit(t *testing.T) {
	type text = wrapperspb.StringValue
	for _, scheme := range []string{"tcp", "grpc", "connect"} {
		t.Run(scheme, func(t *testing.T) {
			srv := server.New(
				server.WithProtocols(all.New()...),
				server.WithOverloadControl(server.OverloadConfig{Streams: 2, Busy: -1, Engage: -1}), // always short
			)
			err := server.HandleStream(srv, "Test.Echo", func(_ context.Context, s *tandem.Stream[text, text]) error {
				for m, err := range s.All() {
					if err != nil {
						return err
					}
					if err := s.Send(m); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			c, err := client.Dial(scheme+"://"+listening(t, srv), client.WithProtocols(all.Clients()...), client.WithFailMode(client.Failfast), client.WithThrottle(nil))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			open := func() (*tandem.Stream[text, text], error) {
				s, err := client.Stream[text, text](ctx, c, "Test.Echo")
				if err != nil {
					return nil, err
				}
				if err := s.Send(wrapperspb.String("x")); err != nil {
					_, err = s.Recv()
					return nil, err
				}
				_, err = s.Recv()
				return s, err
			}
			for !srv.Overload().Guarding {
				if ctx.Err() != nil {
					t.Fatal("the server does not guard")
				}
			}
			var running []*tandem.Stream[text, text]
			for range 2 {
				s, err := open()
				if err != nil {
					t.Fatal(err)
				}
				running = append(running, s)
			}
			_, err = open()
			if e := tandem.AsError(err); e == nil || e.Code != tandem.ResourceExhausted || !e.NotExecuted || e.RetryAfter != time.Second {
				t.Errorf("a third stream: %+v", e)
			}
			if o := srv.Overload(); o.Streams != 2 || o.Refused.Streams != 1 {
				t.Errorf("%+v", o)
			}
			if err := running[0].CloseSend(); err != nil {
				t.Error(err)
			}
			for srv.Overload().Streams != 1 {
				if ctx.Err() != nil {
					t.Fatal("the stream does not end")
				}
			}
			if _, err := open(); err != nil {
				t.Errorf("after one has ended: %v", err)
			}
		})
	}
}
