package redis

import (
	"crypto/tls"
	"log/slog"
	"time"
)

// Times that are not options.
const (
	defaultTTL = 15 * time.Second
	minTTL     = time.Second
	patience   = 3 * time.Second // timeout for a response of the server, and for a connection
)

// Option changes a [Registry].
type Option func(*options)

type options struct {
	user, password                 string
	sentinelUser, sentinelPassword string
	tls                            *tls.Config
	ttl                            time.Duration
	log                            *slog.Logger
}

func defaults() options {
	return options{ttl: defaultTTL, log: slog.New(slog.DiscardHandler)}
}

// WithAuth sets the user and password for the server. The user is one of the server's
// access control list, or "" for a server with only a password (requirepass).
func WithAuth(user, password string) Option {
	return func(o *options) { o.user, o.password = user, password }
}

// WithSentinelAuth sets the user and password for the Sentinels, which don't have the
// server's users.
func WithSentinelAuth(user, password string) Option {
	return func(o *options) { o.sentinelUser, o.sentinelPassword = user, password }
}

// WithTLS makes all connections use TLS, also those to Sentinels and nodes of a Cluster.
// A server's certificate must be for the host of its address, unless config has a
// ServerName.
func WithTLS(config *tls.Config) Option {
	return func(o *options) { o.tls = config.Clone() }
}

// WithTTL sets how long an instance stays listed after its process has last renewed it:
// 15 s by default, at least 1 s. It is renewed three times in that time. A target's ttl
// takes precedence.
func WithTTL(d time.Duration) Option {
	return func(o *options) {
		if d > 0 {
			o.ttl = max(d, minTTL)
		}
	}
}

// WithLogger sets the log for invalid entries and failing registrations. By default, they
// are not logged.
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
