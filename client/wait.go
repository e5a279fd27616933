package client

import "time"

const defaultWait = 3 * time.Second

// WithWait sets how long calls wait for a ready connection while no instance has one and
// connecting fails, counted from the moment the last connection was lost, or from Dial: 3 s by
// default; 0 means that they fail at once. So a restart of the only server, or a registry that
// answers late, delays calls and does not fail them. Whatever WithWait says, a call waits while
// an instance is being connected, and for the first list of instances.
//
// A call waits no longer than its deadline, and not while another instance can take it. At most
// 10,000 calls of a client, with 64 MiB of encoded arguments, wait at a time; further ones fail
// as Unavailable.
func WithWait(d time.Duration) Option {
	return func(o *options) {
		o.given.Add("WithWait")
		o.want(d >= 0, "WithWait", d, "0 or more")
		o.wait = max(0, d)
	}
}
