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

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Names of Dubbo's protocol Triple: in a provider's URL, and in an endpoint. On the wire
// it is gRPC, which clients must support.
const (
	triple = "tri"
	grpc   = "grpc"
)

// incarnationKey is the parameter of a provider's URL that holds the incarnation. Dubbo
// has no such parameter of its own.
const incarnationKey = "tandem.incarnation"

// dubboLayout is the layout of Dubbo's interface-level registry below /dubbo: the node of
// a provider is named by its URL, escaped, and has no data. Consumers use the providers
// of their own interface, group and version.
type dubboLayout struct{ service string } // the interface

func (dubboLayout) below() string { return "/providers" }

func (dubboLayout) named() bool { return true }

// node returns the node for the first endpoint with gRPC over TCP.
func (d dubboLayout) node(in tandem.Instance) (string, []byte, error) {
	for _, ep := range in.Endpoints {
		if ep.Transport == "tcp" && ep.Protocol == grpc {
			u := url.URL{Scheme: triple, Host: ep.Address, Path: "/" + d.service, RawQuery: d.parameters(in).Encode()}
			return url.QueryEscape(u.String()), nil, nil
		}
	}
	return "", nil, fmt.Errorf("instance %q has no endpoint that a consumer of Dubbo can call: want transport tcp and protocol grpc", in.ID)
}

// parameters returns the parameters of a provider's URL. Tags are set first, so that no
// tag replaces a parameter that Dubbo needs.
func (d dubboLayout) parameters(in tandem.Instance) url.Values {
	v := url.Values{}
	for key, value := range in.Tags {
		v.Set(key, value)
	}
	if !v.Has("application") {
		v.Set("application", "tandem")
	}
	for key, value := range map[string]string{
		"interface": d.service, "dubbo": "2.0.2", "side": "provider", "category": "providers", "methods": "*",
		"dynamic": "true", "generic": "false", "deprecated": "false", "anyhost": "true",
	} {
		v.Set(key, value)
	}
	setUnless(v, "group", in.Group)
	setUnless(v, "version", in.Version)
	setUnless(v, "zone", in.Zone)
	setUnless(v, incarnationKey, in.Incarnation)
	if in.Weight != 0 {
		v.Set("weight", strconv.Itoa(in.Weight))
	}
	if !in.Started.IsZero() {
		v.Set("timestamp", strconv.FormatInt(in.Started.UnixMilli(), 10)) // warm-up begins here
	}
	return v
}

func setUnless(v url.Values, key, value string) {
	if value != "" {
		v.Set(key, value)
	}
}

// parse reads a provider. Its ID is its address and Dubbo's key of the service, as
// one process may offer several groups or versions at one address.
func (d dubboLayout) parse(name string, _ []byte) (tandem.Instance, error) {
	u, err := parseProvider(name)
	if err != nil {
		return tandem.Instance{}, err
	}
	v := u.Query()
	if err := d.suits(v); err != nil {
		return tandem.Instance{}, err
	}
	in := tandem.Instance{
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: u.Host, Protocol: grpc}},
		Group:     v.Get("group"), Version: v.Get("version"), Zone: v.Get("zone"), Incarnation: v.Get(incarnationKey),
	}
	in.ID = triple + "://" + u.Host + "/" + serviceKey(d.service, in.Group, in.Version)
	if in.Weight, err = parseWeight(v); err != nil {
		return in, err
	}
	if text := v.Get("timestamp"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return in, fmt.Errorf("bad timestamp %.30q", text)
		}
		in.Started = time.UnixMilli(ms).UTC()
	}
	in.Tags = others(v, "group", "version", "zone", "weight", "timestamp", incarnationKey, "interface", "dubbo", "side",
		"category", "methods", "dynamic", "generic", "deprecated", "anyhost", "enabled")
	return in, in.Validate()
}

func parseProvider(name string) (*url.URL, error) {
	if len(name) > adapter.MaxEntry {
		return nil, fmt.Errorf("name of %d bytes, limit %d", len(name), adapter.MaxEntry)
	}
	text, err := url.QueryUnescape(name)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if u.Scheme != triple && u.Scheme != grpc {
		return nil, fmt.Errorf("protocol %.20q is not spoken here: want %s", u.Scheme, triple)
	}
	if host, port, err := net.SplitHostPort(u.Host); err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("address %.100q: want host:port", u.Host)
	}
	return u, nil
}

// suits returns nil for an enabled provider of this service, or else the reason why it
// can't be called.
func (d dubboLayout) suits(v url.Values) error {
	switch {
	case v.Get("interface") != "" && v.Get("interface") != d.service:
		return fmt.Errorf("it provides %.100q", v.Get("interface"))
	case cmp.Or(v.Get("category"), "providers") != "providers":
		return fmt.Errorf("it is in the category %.20q", v.Get("category"))
	case v.Get("enabled") == "false":
		return errors.New("it is not enabled")
	}
	return nil
}

// serviceKey returns Dubbo's name of a service: group/interface:version.
func serviceKey(service, group, version string) string {
	if group != "" {
		service = group + "/" + service
	}
	if version != "" {
		service += ":" + version
	}
	return service
}

// parseWeight returns the weight in the parameters, 0 if there is none. It refuses a
// weight of 0: Dubbo and rpcx mean by it that an instance gets no calls, and tandem that it
// has the default weight.
func parseWeight(v url.Values) (int, error) {
	text := v.Get("weight")
	if text == "" {
		return 0, nil
	}
	weight, err := strconv.Atoi(text)
	if err != nil || weight < 1 || weight > tandem.MaxWeight {
		return 0, fmt.Errorf("weight %.20q: want a number from 1 to %d", text, tandem.MaxWeight)
	}
	return weight, nil
}

// others deletes the parameters named in but from v, and returns the others, nil if there
// are none.
func others(v url.Values, but ...string) map[string]string {
	for _, key := range but {
		v.Del(key)
	}
	var tags map[string]string
	for key := range v {
		if tags == nil {
			tags = make(map[string]string, len(v))
		}
		tags[strings.ToValidUTF8(key, "�")] = strings.ToValidUTF8(v.Get(key), "�")
	}
	return tags
}
