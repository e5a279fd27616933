package nacos

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// place is a parsed target: a service, its servers, and the times of its list.
type place struct {
	servers                            string // base URLs, separated by commas
	namespace, group, service, cluster string // "" is Nacos's default
	ttl, poll                          time.Duration
	grpc                               bool // api=grpc
}

// Nacos's rules for names, without the characters that must be escaped in a target.
var (
	groupName   = regexp.MustCompile(`^[0-9A-Za-z_.:-]{1,128}$`)
	serviceName = regexp.MustCompile(`^[0-9A-Za-z_.:-]{1,512}$`)
	plainName   = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)
	contextPath = regexp.MustCompile(`^[0-9A-Za-z_./-]{0,128}$`)
)

// parse reads a target. The resolver's options are its defaults.
func (r *resolver) parse(t registry.Target) (place, error) {
	options, err := t.Options("namespace", "cluster", "context", "ttl", "poll", "api")
	if err != nil {
		return place{}, err
	}
	p, err := r.read(t, options)
	if err != nil {
		return place{}, fmt.Errorf("target %.100q: %w", t.Redacted(), err)
	}
	return p, nil
}

func (r *resolver) read(t registry.Target, options map[string]string) (p place, err error) {
	if p.servers, err = r.bases(t, options["context"]); err != nil {
		return p, err
	}
	if p.group, p.service, err = splitPath(t.Path); err != nil {
		return p, err
	}
	for option, to := range map[string]*string{"namespace": &p.namespace, "cluster": &p.cluster} {
		if *to = options[option]; *to != "" && !plainName.MatchString(*to) {
			return p, fmt.Errorf("bad %s %.70q: want at most 64 letters, digits, '_' or '-'", option, *to)
		}
	}
	switch options["api"] {
	case "", "http":
	case "grpc":
		p.grpc = true
	default:
		return p, fmt.Errorf("bad api %.20q: want http or grpc", options["api"])
	}
	p.ttl, err = span("ttl", options["ttl"], cmp.Or(r.ttl, 15*time.Second), time.Second, 10*time.Minute)
	if err != nil {
		return p, err
	}
	p.poll, err = span("poll", options["poll"], cmp.Or(r.poll, 2*time.Second), 10*time.Millisecond, time.Minute)
	return p, err
}

// bases returns the URLs of the target's servers.
func (r *resolver) bases(t registry.Target, context string) (string, error) {
	scheme := "http"
	switch {
	case t.Scheme != "nacos" && t.Scheme != "nacos+https":
		return "", fmt.Errorf("scheme %q is not this registry's; want nacos or nacos+https", t.Scheme)
	case !contextPath.MatchString(context):
		return "", fmt.Errorf("bad context %.130q: want a path such as nacos", context)
	case t.Scheme == "nacos+https" || r.tls != nil:
		scheme = "https"
	}
	var bases []string
	for address := range strings.SplitSeq(t.Authority, ",") {
		host, port, err := net.SplitHostPort(address)
		if err != nil || !validPort(port) || host == "" || strings.ContainsAny(host, "/@?#% ") {
			return "", fmt.Errorf("bad server %.100q: want host:port, separated by commas", address)
		}
		base := url.URL{Scheme: scheme, Host: address, Path: "/" + cmp.Or(strings.Trim(context, "/"), "nacos")}
		bases = append(bases, base.String())
	}
	return strings.Join(bases, ","), nil
}

func validPort(s string) bool {
	port, err := strconv.ParseUint(s, 10, 16)
	return err == nil && port > 0
}

// splitPath returns the group, "" for Nacos's default, and the service.
func splitPath(path string) (group, service string, err error) {
	group, service, two := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !two {
		group, service = "", group
	}
	switch {
	case !serviceName.MatchString(service):
		err = fmt.Errorf("bad path %.100q: want /Service or /group/Service, of letters, digits, '_', '-', '.' and ':'", path)
	case two && !groupName.MatchString(group):
		err = fmt.Errorf("bad group %.100q: want letters, digits, '_', '-', '.' and ':'", group)
	}
	return group, service, err
}

// span returns the duration of an option: text, or otherwise if text is empty. It fails if
// that is not between least and most.
func span(option, text string, otherwise, least, most time.Duration) (time.Duration, error) {
	d := otherwise
	if text != "" {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			return 0, fmt.Errorf("bad %s %.50q: want a duration such as %v", option, text, least)
		}
	}
	if d < least || d > most {
		return 0, fmt.Errorf("%s is %v, allowed %v to %v", option, d, least, most)
	}
	return d, nil
}

// query returns the parameters that name the service.
func (p place) query() url.Values {
	q := url.Values{"serviceName": {p.service}}
	if p.group != "" {
		q.Set("groupName", p.group)
	}
	if p.namespace != "" && p.namespace != "public" {
		q.Set("namespaceId", p.namespace)
	}
	return q
}

// of returns the parameters that name an instance of the service.
func (p place) of(a address) url.Values {
	q := p.query()
	q.Set("ip", a.host)
	q.Set("port", strconv.Itoa(a.port))
	q.Set("ephemeral", "true")
	q.Set("clusterName", p.clusterName())
	return q
}

// clusterName returns the cluster to register in.
func (p place) clusterName() string { return cmp.Or(p.cluster, "DEFAULT") }

// address identifies an instance in Nacos.
type address struct {
	host string
	port int
}

func (a address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

var errNoAddress = errors.New("none of its endpoints is host:port, and Nacos lists nothing else")
