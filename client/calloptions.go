package client

import (
	"time"

	"github.com/tandem-rpc/tandem"
)

// Codec makes the call with the codec of that name.
func Codec(name string) tandem.CallOption { return func(c *tandem.Call) { c.Codec = name } }

// Compressor allows the call's messages, in both directions, to be compressed with the
// compressor of that name.
func Compressor(name string) tandem.CallOption { return func(c *tandem.Call) { c.Compressor = name } }

// Timeout bounds the call, all attempts together. A stream is ended when the time is over, even
// while messages flow; without Timeout it lives as long as its context.
func Timeout(d time.Duration) tandem.CallOption {
	return func(c *tandem.Call) { c.Deadline = time.Now().Add(d) }
}

// AttemptTimeout bounds each attempt at the call: see [Attempts]. A negative d means
// no bound.
func AttemptTimeout(d time.Duration) tandem.CallOption {
	return func(c *tandem.Call) { c.AttemptTimeout = d }
}

// Metadata sends a pair with the request; repeat it for more.
func Metadata(key, value string) tandem.CallOption {
	return func(c *tandem.Call) {
		if c.Metadata == nil {
			c.Metadata = tandem.Metadata{}
		}
		c.Metadata.Add(key, value)
	}
}

// Criticality says how much the call matters to an overloaded server. A call with an
// unknown class fails.
func Criticality(class tandem.Criticality) tandem.CallOption {
	return func(c *tandem.Call) {
		if c.Metadata == nil {
			c.Metadata = tandem.Metadata{}
		}
		c.Metadata.Set(tandem.CriticalityKey, string(class))
	}
}

// FailMode overrides the client's fail mode for the call.
func FailMode(m tandem.FailMode) tandem.CallOption { return func(c *tandem.Call) { c.FailMode = m } }

// Idempotent says that a second execution does no harm, so that the call may be retried even if
// an attempt may have executed. [Key] is for calls that must not run twice.
func Idempotent() tandem.CallOption { return func(c *tandem.Call) { c.Idempotent = true } }

// HashKey sends calls with equal keys to the same instance, if the policy
// hashes.
func HashKey(key string) tandem.CallOption { return func(c *tandem.Call) { c.HashKey = key } }

// Route sends the call to the instances that the route asks for, instead of those
// of the client's [WithRoute]. Package balance says what it means.
func Route(r tandem.Route) tandem.CallOption { return func(c *tandem.Call) { c.Route = &r } }

// Instance allows only the instance with that ID.
func Instance(id string) tandem.CallOption { return func(c *tandem.Call) { c.Pin = id } }

// Trailer stores the response's metadata into md when the call has ended. For a stream it is
// set before Recv returns the error that ends the stream. md is nil after a call at a server of
// a protocol without such metadata.
func Trailer(md *tandem.Metadata) tandem.CallOption {
	return func(c *tandem.Call) { c.OnEnd(func(error) { *md = c.Trailer }) }
}
