package client

import "github.com/tandem-rpc/tandem/resilience"

// Ejection sets when a client gives no calls to instances that fail or are slow, though they
// are listed and connected. Each instance has a [resilience.Breaker]. It opens when the
// instance's calls fail, or when the instance is an outlier among the others; then the instance
// gets no calls until the pause is over, and single ones until they succeed. While more than
// Outliers.MaxShare of the instances are left out, none is.
//
// Errors with the codes Unavailable, DeadlineExceeded, Internal and DataLoss count as failures.
// Other errors of methods do not, nor do the refusals of a server that drains or is overloaded:
// ejecting it would give the others more.
type Ejection struct {
	Outliers resilience.OutlierConfig `json:"outliers,omitzero"`
	Breaker  resilience.BreakerConfig `json:"breaker,omitzero"`
}
