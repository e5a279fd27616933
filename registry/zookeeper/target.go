package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem/registry"
)

// Session timeouts.
const (
	defaultTTL = 15 * time.Second
	minTTL     = time.Second
	maxTTL     = 10 * time.Minute
)

// place is a parsed target.
type place struct {
	link   string // the key of the link: the servers, '?' and the ttl
	dir    string // the node whose children are the instances
	ttl    time.Duration
	acl    []zk.ACL // access to the nodes that we make
	layout layout
}

func parsePlace(target registry.Target, o *options) (place, error) {
	values, err := target.Options("ttl", "acl", "layout")
	if err != nil {
		return place{}, err
	}
	p, err := parseOptions(target, values, o)
	if err == nil {
		err = checkPath(target.Path)
	}
	if err == nil {
		_, err = parseServers(target.Authority)
	}
	if err != nil {
		return p, fmt.Errorf("target %.100q: %w", target.Redacted(), err)
	}
	p.dir = target.Path + p.layout.below()
	p.link = target.Authority + "?" + p.ttl.String()
	return p, nil
}

func parseOptions(target registry.Target, values map[string]string, o *options) (p place, err error) {
	p.ttl = o.ttl
	if text := values["ttl"]; text != "" {
		if p.ttl, err = time.ParseDuration(text); err != nil {
			return p, fmt.Errorf("bad ttl %.20q: want a duration such as 15s", text)
		}
	}
	if p.ttl < minTTL || p.ttl > maxTTL {
		return p, fmt.Errorf("ttl of %v; want %v to %v", p.ttl, minTTL, maxTTL)
	}
	if p.acl, err = parseACL(values["acl"], o.user != ""); err != nil {
		return p, err
	}
	p.layout, err = parseLayout(target.Path, values["layout"])
	return p, err
}

func parseACL(text string, authenticated bool) ([]zk.ACL, error) {
	var acl []zk.ACL
	switch text {
	case "", "open":
		return zk.WorldACL(zk.PermAll), nil
	case "read":
		acl = append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...)
	case "creator":
		acl = zk.AuthACL(zk.PermAll)
	default:
		return nil, fmt.Errorf("bad acl %.20q: want open, read or creator", text)
	}
	if !authenticated {
		return nil, fmt.Errorf("acl=%s needs a user: give one with WithAuth", text)
	}
	return acl, nil
}

func parseLayout(path, text string) (layout, error) {
	switch text {
	case "", "tandem":
		return tandemLayout{}, nil
	case "rpcx":
		return rpcxLayout{}, nil
	case "dubbo":
		service, err := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
		return dubboLayout{service}, err
	}
	return nil, fmt.Errorf("bad layout %.20q: want tandem, dubbo or rpcx", text)
}

// checkPath fails for a path that ZooKeeper would refuse.
func checkPath(path string) error {
	if len(path) < 2 {
		return errors.New("it names no directory: want zookeeper://host:port/base/Service")
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("path %.100q: %q can't be the name of a node", path, part)
		}
	}
	if strings.ContainsFunc(path, unfit) {
		return fmt.Errorf("path %.100q has characters that ZooKeeper does not take", path)
	}
	return nil
}

// unfit reports whether ZooKeeper refuses a character in a path.
func unfit(r rune) bool {
	return unicode.IsControl(r) || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
}

// parseServers splits a list of servers and adds ZooKeeper's port where none is given.
func parseServers(list string) ([]string, error) {
	servers := strings.Split(list, ",")
	for i, server := range servers {
		if host := strings.Trim(server, "[]"); !strings.Contains(server, ":") || net.ParseIP(host) != nil {
			server = net.JoinHostPort(host, strconv.Itoa(zk.DefaultPort))
		}
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			return nil, fmt.Errorf("server %.100q: want host:port", servers[i])
		}
		if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
			return nil, fmt.Errorf("server %.100q: want host:port", cmp.Or(servers[i], list))
		}
		servers[i] = server
	}
	return servers, nil
}
