package redis

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem/registry"
)

// place is a parsed target: a list on a server.
type place struct {
	list    string // the path, without slashes around it
	ttl     time.Duration
	addrs   []string
	db      int
	master  string
	cluster bool
}

// parse parses a target.
func parse(t registry.Target) (place, error) {
	if strings.Contains(t.Authority, "@") { // the error does not repeat it
		return place{}, errors.New(name + ": there is an @ in the target: give user and password by WithAuth")
	}
	at, err := parseOptions(t)
	if err != nil {
		return place{}, fmt.Errorf("%s: %w", name, err)
	}
	at.list = strings.Trim(t.Path, "/")
	if at.list == "" || strings.ContainsAny(at.list, "{}") {
		return place{}, fmt.Errorf("%s: target %.100q: want redis://host:port/base/Service, without braces in the path", name, t.Redacted())
	}
	port := "6379"
	if at.master != "" {
		port = "26379"
	}
	for addr := range strings.SplitSeq(t.Authority, ",") {
		addr, err = withPort(addr, port)
		if err != nil {
			return place{}, fmt.Errorf("%s: target %.100q: %w", name, t.Redacted(), err)
		}
		at.addrs = append(at.addrs, addr)
	}
	at.cluster = at.cluster || len(at.addrs) > 1 && at.master == ""
	if at.cluster && (at.db != 0 || at.master != "") {
		return place{}, fmt.Errorf("%s: target %.100q: a Cluster has one database and no Sentinels: leave out db and master", name, t.Redacted())
	}
	return at, nil
}

func parseOptions(t registry.Target) (at place, err error) {
	options, err := t.Options("ttl", "db", "master", "cluster")
	if err != nil {
		return at, err
	}
	if text := options["ttl"]; text != "" {
		if at.ttl, err = time.ParseDuration(text); err != nil || at.ttl < minTTL {
			return at, fmt.Errorf("target %.100q: bad ttl %.20q: want a duration of at least %v", t.Redacted(), text, minTTL)
		}
	}
	if text := options["db"]; text != "" {
		if at.db, err = strconv.Atoi(text); err != nil || at.db < 0 {
			return at, fmt.Errorf("target %.100q: bad db %.20q: want a number from 0 on", t.Redacted(), text)
		}
	}
	if text := options["cluster"]; text != "" {
		if at.cluster, err = strconv.ParseBool(text); err != nil {
			return at, fmt.Errorf("target %.100q: bad cluster %.20q: want true or false", t.Redacted(), text)
		}
	}
	at.master = options["master"]
	return at, nil
}

// withPort returns the address with a port.
func withPort(addr, port string) (string, error) {
	host, given, err := net.SplitHostPort(addr)
	if err != nil {
		host, given, err = net.SplitHostPort(addr + ":" + port)
	}
	if n, bad := strconv.ParseUint(given, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
		return "", fmt.Errorf("bad address %.100q; want host:port", addr)
	}
	return net.JoinHostPort(host, given), nil
}

// server returns the target without the parts that belong to the list. It is equal for
// places that can share a connection.
func (at place) server() string {
	query := url.Values{"db": {strconv.Itoa(at.db)}, "cluster": {strconv.FormatBool(at.cluster)}}
	if at.master != "" {
		query.Set("master", at.master)
	}
	authority := strings.Join(slices.Sorted(slices.Values(at.addrs)), ",")
	return registry.Target{Scheme: "redis", Authority: authority, Path: "/any", Query: query}.String()
}

// connect returns the connection to a server, as place.server names it. It does not wait
// until it is connected.
func (o *options) connect(server string) (*connection, error) {
	t, err := registry.ParseTarget(server)
	if err != nil {
		return nil, err
	}
	at, err := parse(t)
	if err != nil {
		return nil, err
	}
	settings := &goredis.UniversalOptions{
		Addrs: at.addrs, DB: at.db, MasterName: at.master, IsClusterMode: at.cluster,
		Username: o.user, Password: o.password,
		SentinelUsername: o.sentinelUser, SentinelPassword: o.sentinelPassword,
		TLSConfig: o.tls, Protocol: 2, ContextTimeoutEnabled: true, DisableIdentity: true,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		PoolSize: 8, DialerRetries: 1, MaxRetries: -1, // Maintain and Follow retry, with longer backoff
	}
	return newConnection(goredis.NewUniversalClient(settings)), nil
}
