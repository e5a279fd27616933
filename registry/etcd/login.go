package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// loginTimeout bounds a login. A request that waits for a login ends earlier with its
// own context.
const loginTimeout = 10 * time.Second

// logins merges concurrent logins into one. etcd's client logs in for each request
// whose token the server does not know, and cancels the login with the request. But
// the server goes on hashing the password, which takes much of a second of CPU time,
// so with thousands of requests it might never answer one.
type logins struct {
	conn *conn

	mu  sync.Mutex
	now *login // login in progress; nil for none
}

type login struct {
	done  chan struct{}
	reply pb.AuthenticateResponse // valid, as is err, when done is closed
	err   error
}

// intercept is a grpc.UnaryClientInterceptor.
func (l *logins) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method != pb.Auth_Authenticate_FullMethodName {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	one := l.join(func(ctx context.Context, reply *pb.AuthenticateResponse) error {
		return l.conn.withoutLogin(func(cc *grpc.ClientConn) error {
			return invoke(ctx, method, req, reply, cc, grpc.WaitForReady(true)) // without opts: they belong to one caller, which may have given up
		})
	})
	select {
	case <-one.done:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	if one.err == nil {
		to := reply.(*pb.AuthenticateResponse)
		to.Header, to.Token = one.reply.GetHeader(), one.reply.GetToken()
	}
	return one.err
}

// join returns the login in progress, and starts one if there is none.
func (l *logins) join(call func(context.Context, *pb.AuthenticateResponse) error) *login {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		return l.now
	}
	one := &login{done: make(chan struct{})}
	l.now = one
	l.conn.wg.Go(func() {
		ctx, cancel := context.WithTimeout(l.conn.ctx, loginTimeout)
		defer cancel()
		one.err = call(ctx, &one.reply)
		l.mu.Lock()
		l.now = nil
		l.mu.Unlock()
		close(one.done)
	})
	return one
}
