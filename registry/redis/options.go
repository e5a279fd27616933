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
	patience   = 3 * time.Second // for an answer of the server, and for a connection
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

// WithAuth sets what to authenticate with: a user of the server's access control
// list, or "" for a server that knows only one password (requirepass).
func WithAuth(user, password string) Option {
	return func(o *options) { o.user, o.password = user, password }
}

// WithSentinelAuth sets what to authenticate with at the Sentinels, which know
// nothing of the server's users.
func WithSentinelAuth(user, password string) Option {
	return func(o *options) { o.sentinelUser, o.sentinelPassword = user, password }
}

// WithTLS has all connections use TLS, those to Sentinels and nodes of a Cluster
// too. The server's name is that of its address unless config names one.
func WithTLS(config *tls.Config) Option {
	return func(o *options) { o.tls = config.Clone() }
}

// WithTTL sets how long an instance stays listed after its process was last heard
// of: 15 s unless given, 1 s at least. It is renewed three times in that time. A
// target's ttl counts more.
func WithTTL(d time.Duration) Option {
	return func(o *options) {
		if d > 0 {
			o.ttl = max(d, minTTL)
		}
	}
}

// WithLogger sets where dropped entries and troubled registrations are reported;
// nowhere unless given.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) {
		if log != nil {
			o.log = log
		}
	}
}

// ttlOf returns the time to live of instances in that place.
func (o *options) ttlOf(at place) time.Duration {
	if at.ttl > 0 {
		return at.ttl
	}
	return o.ttl
}
