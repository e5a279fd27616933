package consul

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tandem-rpc/tandem/registry"
)

// Times to live.
const (
	defaultTTL = 15 * time.Second
	leastTTL   = time.Second
	mostTTL    = time.Hour
)

// Limits of a target.
const (
	defaultPort = "8500"
	maxHosts    = 16
	maxPath     = maxValue // because the path is stored as a value of meta
)

// place is a parsed target: a list, and the agents to use.
type place struct {
	hosts   string // host:port, separated by commas
	path    string // "/base/Service", as in the target
	service string // the last element of path
	ttl     time.Duration
}

// parsePlace parses a target. ttl applies unless the target has the option ttl.
func parsePlace(target registry.Target, ttl time.Duration) (place, error) {
	hosts, err := parseHosts(target.Authority)
	if err == nil {
		err = checkPath(target.Path)
	}
	if err != nil {
		return place{}, fmt.Errorf("target %.100q: %w; want consul://host:8500/base/Service", target.Redacted(), err)
	}
	options, err := target.Options("ttl")
	if err != nil {
		return place{}, err
	}
	if text, ok := options["ttl"]; ok {
		if ttl, err = time.ParseDuration(text); err != nil {
			return place{}, fmt.Errorf("target %.100q: option ttl: %w", target.Redacted(), err)
		}
	}
	if ttl < leastTTL || ttl > mostTTL {
		return place{}, fmt.Errorf("target %.100q: a time to live of %v; allowed are %v to %v", target.Redacted(), ttl, leastTTL, mostTTL)
	}
	service := target.Path[strings.LastIndexByte(target.Path, '/')+1:]
	return place{hosts: strings.Join(hosts, ","), path: target.Path, service: service, ttl: ttl}, nil
}

// parseHosts returns the hosts, each with a port.
func parseHosts(authority string) ([]string, error) {
	if strings.Contains(authority, "@") {
		return nil, errors.New("a target has no user or password: use WithToken")
	}
	hosts := strings.Split(authority, ",")
	if len(hosts) > maxHosts {
		return nil, fmt.Errorf("%d hosts, limit %d", len(hosts), maxHosts)
	}
	for i, host := range hosts {
		if !hasPort(host) {
			host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
		}
		if err := checkHost(host); err != nil {
			return nil, err
		}
		hosts[i] = host
	}
	return hosts, nil
}

// hasPort reports whether host has a port: [::1]:8500 has, [::1] has not.
func hasPort(host string) bool {
	return strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']')
}

// checkHost fails for a host and port that can't be part of a URL.
func checkHost(hostPort string) error {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return fmt.Errorf("bad host %.100q: %w", hostPort, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("bad port in %.100q", hostPort)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	letter := func(c rune) bool {
		return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_'
	}
	if host == "" || strings.TrimFunc(host, letter) != "" {
		return fmt.Errorf("bad host %.100q", hostPort)
	}
	return nil
}

func checkPath(path string) error {
	switch {
	case strings.Trim(path, "/") == "":
		return errors.New("no service is named")
	case strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		return errors.New("the path has an empty element")
	case len(path) > maxPath:
		return fmt.Errorf("a path of %d bytes, limit %d", len(path), maxPath)
	case !utf8.ValidString(path):
		return errors.New("the path is not UTF-8")
	}
	return nil
}
