package etcd

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Concurrent logins are merged into one, which continues when one of its callers gives
// up; other requests are passed on.
func TestConcurrentLoginsAreMerged(t *testing.T) { synctest.Test(t, testConcurrentLoginsAreMerged) }

func testConcurrentLoginsAreMerged(t *testing.T) {
	c := newConn("h:1", options{})
	defer c.close()
	l := &logins{conn: c}
	var calls atomic.Int64
	answer := make(chan struct{})
	invoke := func(ctx context.Context, method string, _, reply any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		if method != pb.Auth_Authenticate_FullMethodName {
			return status.Error(codes.NotFound, "passed on")
		}
		calls.Add(1)
		select {
		case <-answer:
		case <-ctx.Done():
			return ctx.Err()
		}
		reply.(*pb.AuthenticateResponse).Token = "a token"
		return nil
	}
	logIn := func(ctx context.Context) (string, error) {
		var reply pb.AuthenticateResponse
		err := l.intercept(ctx, pb.Auth_Authenticate_FullMethodName, nil, &reply, nil, invoke)
		return reply.GetToken(), err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := logIn(ctx); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a login without an answer: %v", err)
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if token, err := logIn(t.Context()); token != "a token" || err != nil {
				t.Errorf("logged in with %q, %v", token, err)
			}
		})
	}
	if err := l.intercept(t.Context(), pb.KV_Range_FullMethodName, nil, nil, nil, invoke); status.Code(err) != codes.NotFound {
		t.Errorf("another request: %v", err)
	}
	synctest.Wait()
	close(answer)
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d logins, want one for all", n)
	}
	if token, err := logIn(t.Context()); token != "a token" || err != nil || calls.Load() != 2 {
		t.Errorf("a later login: %q, %v, %d logins", token, err, calls.Load())
	}
}
