package mdns

import (
	"log/slog"
	"time"
)

// Times to live.
const (
	defaultTTL = 15 * time.Second
	minTTL     = time.Second
	maxTTL     = time.Hour
)

// Option changes a [Registry].
type Option func(*options)

type options struct {
	ttl time.Duration
	log *slog.Logger
}

func defaults() options {
	return options{ttl: defaultTTL, log: slog.New(slog.DiscardHandler)}
}

// WithTTL sets how long an instance stays listed after its last answer: 15 s by default,
// from 1 s to 1 h. A target's ttl takes precedence.
func WithTTL(d time.Duration) Option {
	return func(o *options) {
		if d > 0 {
			o.ttl = min(max(d, minTTL), maxTTL)
		}
	}
}

// WithLogger sets the log for invalid entries, failing registrations and, with level debug,
// invalid packets. By default, they are not logged.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) {
		if log != nil {
			o.log = log
		}
	}
}

// ttlOf returns the time to live of instances in a list.
func (o *options) ttlOf(at place) time.Duration {
	if at.ttl > 0 {
		return at.ttl
	}
	return o.ttl
}
