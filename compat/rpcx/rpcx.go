// Package rpcx (experimental) has the API of rpcx's first version, which was built on net/rpc, implemented by
// tandem's servers and clients. To migrate a program, change its import lines:
//
//	import "github.com/saiser/rpcx"                        // before
//	import "github.com/tandem-rpc/tandem/compat/rpcx"      // after
//
// and those of clientselector and plugin. The selectors and plugins for ZooKeeper, etcd and
// Consul, which need a registry's client, are in the module compat/rpcx/registries.
//
// A [Server] is a tandem server on its port, for clients of every protocol in package
// protocol/all, including today's rpcx clients and net/rpc's. A [Client] with a selector of
// this module uses tandem's protocol, with its fail modes, balancing and health checks. With
// the user's own codecs on both sides, the protocol on the wire is the codec's, as with
// net/rpc.
//
// # What differs
//
// Fail modes treat calls as idempotent, as rpcx does: a call may run twice when its connection
// is lost. But an error that a method returns is a response, and is not retried at another
// server. Connections belong to the selector and are shared by its clients; they are closed
// by its Close, or when it is garbage collected. The protocol of rpcx's first version is not
// supported.
package rpcx

import (
	"errors"
	"io"
	"net/rpc"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// FailMode is what a [Client] does when a call fails.
type FailMode int

// The fail modes.
const (
	Failover  FailMode = iota // tries another server, up to Retries times
	Failfast                  // returns the first error
	Failtry                   // tries the same server again, up to Retries times
	Broadcast                 // calls every server; all must succeed
	Forking                   // calls two servers; the first answer wins
)

// tandem returns the corresponding mode of package tandem.
func (m FailMode) tandem() tandem.FailMode {
	switch m {
	case Failover:
		return tandem.Failover
	case Failtry:
		return tandem.Failtry
	case Broadcast:
		return tandem.Broadcast
	case Forking:
		return tandem.Fork
	case Failfast:
	}
	return tandem.Failfast
}

// SelectMode is how a selector chooses among servers.
type SelectMode int

// The select modes.
const (
	RandomSelect       SelectMode = iota // any
	RoundRobin                           // in turn
	WeightedRoundRobin                   // in turn, more often where the weight is higher
	WeightedICMP                         // where calls take the shortest; no ICMP is used
	ConsistentHash                       // the same for calls with equal methods and arguments (jump hash)
	Closest                              // like WeightedICMP: the locations of servers are not known
	CallLeast                            // where the fewest calls run
)

// Policy returns the balancing policy for the mode.
func (m SelectMode) Policy() balance.Policy {
	switch m {
	case RoundRobin, WeightedRoundRobin:
		return balance.RoundRobin()
	case WeightedICMP, Closest:
		return balance.ShortestLatency()
	case ConsistentHash:
		return balance.JumpHash()
	case CallLeast:
		return balance.LeastInFlight()
	case RandomSelect:
	}
	return balance.Random()
}

// ServerCodecFunc makes the codec of a connection at the server.
type ServerCodecFunc func(conn io.ReadWriteCloser) rpc.ServerCodec

// ClientCodecFunc makes the codec of a connection at the client.
type ClientCodecFunc func(conn io.ReadWriteCloser) rpc.ClientCodec

// ClientSelector chooses a server and returns a client that is connected to it. A [Client]
// calls Select for each call. Select may return the same client again; the Client's Close
// closes all of them, and those that Select returns later. A call that has timed out does not
// wait for Select. Programs may have their own selectors, which never get a nil
// clientCodecFunc.
type ClientSelector interface {
	Select(clientCodecFunc ClientCodecFunc) (*rpc.Client, error)
}

// ErrShutdown is the error of calls with a [Client] that is closed.
var ErrShutdown = rpc.ErrShutdown

// Error is an error that a server has sent. Its text is only the server's message; it wraps the
// [*tandem.Error].
type Error struct{ core *tandem.Error }

// Error returns the server's message.
func (e *Error) Error() string { return e.core.Message }

// Unwrap returns the [*tandem.Error].
func (e *Error) Unwrap() error { return e.core }

// As converts the error to an [rpc.ServerError] if target points to one.
func (e *Error) As(target any) bool {
	if t, ok := target.(*rpc.ServerError); ok {
		*t = rpc.ServerError(e.core.Message)
		return true
	}
	return false
}

// serverError returns err as an [Error] if a server has sent it.
func serverError(err error) error {
	if e, ok := errors.AsType[*tandem.Error](err); ok && e.Remote && e.Message != "" {
		return &Error{e}
	}
	return err
}
