package tandem_test

import (
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
)

// A method can say how long clients should wait before a retry, or that a retry will
// not help.
func ExampleError_WithRetryAfter() {
	full := tandem.Errorf(tandem.ResourceExhausted, "the quota of this minute is used up").WithRetryAfter(20 * time.Second)
	fmt.Println(full, full.RetryAfter)
	never := tandem.Errorf(tandem.Unavailable, "closed for good").WithRetryAfter(tandem.DoNotRetry)
	fmt.Println(never, never.RetryAfter < 0)
	// Output:
	// resource exhausted: the quota of this minute is used up 20s
	// unavailable: closed for good true
}
