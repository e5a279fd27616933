package client

import "time"

// ForceBreaker opens or closes the circuit breaker of an instance until that time, for an operator.
//
// While it is forced open, this client makes no call at the instance, even if there is no other:
// such calls fail as Unavailable and NotExecuted. Afterwards single calls are tried before it gets
// all its calls again. While it is forced closed, the instance is not ejected, whatever its calls
// do; breakers of methods ([WithBreaker]) are not affected. A time that is not in the future ends
// what was forced before. It holds when the instance leaves the registry and comes back, and ends
// with the client. [Client.Describe] shows it.
//
// The error has the code NotFound if the instance is not listed, and Unavailable if the client is
// closed. It is safe for concurrent use.
func (c *Client) ForceBreaker(instance string, open bool, until time.Time) error {
	return c.pool.ForceBreaker(instance, open, until)
}
