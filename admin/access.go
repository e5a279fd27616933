package admin

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/tandem-rpc/tandem"
)

// Role is what a caller may do; each includes those before it.
type Role uint8

// The roles.
const (
	Viewer        Role = iota + 1 // sees state, statistics and the changes that were made
	Developer                     // sees calls as well: taps, traces, profiles
	Operator                      // changes the log's level and breakers
	Administrator                 // sees messages of calls, if WithPayloads allows it
)

// String returns the role's name in lower case.
func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Developer:
		return "developer"
	case Operator:
		return "operator"
	case Administrator:
		return "administrator"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// Authorizer decides which role a caller has; 0 for none. [tandem.FromContext] gives it the call:
// its peer with the verified certificate, its metadata, and the identity that package plugin/auth
// has established. An error refuses the call, as PermissionDenied if it has no code. It must be
// safe for concurrent use.
type Authorizer func(ctx context.Context) (Role, error)

// localOnly is the Authorizer of an Admin without one.
func localOnly(ctx context.Context) (Role, error) {
	if call := tandem.FromContext(ctx); call != nil && isLocal(call) {
		return Developer, nil
	}
	return 0, tandem.Errorf(tandem.PermissionDenied, "only callers from the loopback interface of the server's machine may use this: admin.WithAuthorizer allows others")
}

// forwarded are metadata of calls that a proxy has passed on: it may be on this machine, and the
// caller elsewhere.
var forwarded = [...]string{"forwarded", "x-forwarded-for", "x-real-ip", "via"}

// isLocal reports whether a caller is on this machine.
func isLocal(call *tandem.Call) bool {
	for _, key := range forwarded {
		if len(call.Metadata[key]) > 0 {
			return false
		}
	}
	return call.Peer != nil && isLocalAddr(call.Peer.Addr)
}

func isLocalAddr(a net.Addr) bool {
	if a == nil {
		return false
	}
	switch a.Network() {
	case "unix", "mem":
		return true
	}
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// allow returns an error unless the caller has the role.
func (a *Admin) allow(ctx context.Context, need Role) error {
	has, err := a.roleOf(ctx)
	if err != nil {
		return err
	}
	if has >= need {
		return nil
	}
	if a.authorize == nil {
		return tandem.Errorf(tandem.PermissionDenied, "this needs the role %v, which nobody has without admin.WithAuthorizer", need)
	}
	return tandem.Errorf(tandem.PermissionDenied, "this needs the role %v", need)
}

// roleOf returns the caller's role.
func (a *Admin) roleOf(ctx context.Context) (Role, error) {
	decide := a.authorize
	if decide == nil {
		decide = localOnly
	}
	has, err := decide(ctx)
	if err != nil {
		e := *tandem.AsError(err)
		if e.Code == tandem.Unknown {
			e.Code = tandem.PermissionDenied
		}
		return 0, &e
	}
	return has, nil
}
