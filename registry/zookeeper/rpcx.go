package zookeeper

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// rpcx is the protocol of the endpoints in rpcx's layout.
const rpcx = "rpcx"

// rpcxLayout is the layout of rpcx's registries: nodes named network@host:port that hold
// metadata as a query, such as weight=7&group=a&state=active.
type rpcxLayout struct{}

func (rpcxLayout) below() string { return "" }

func (rpcxLayout) named() bool { return false }

// node returns the node for the first endpoint with the protocol rpcx.
func (rpcxLayout) node(in tandem.Instance) (string, []byte, error) {
	for _, ep := range in.Endpoints {
		if ep.Protocol != rpcx {
			continue
		}
		name := ep.Transport + "@" + ep.Address
		if strings.Contains(name, "/") || strings.ContainsFunc(name, unfit) {
			return "", nil, fmt.Errorf("endpoint %q can't be the name of a node", ep)
		}
		return name, []byte(rpcxMetadata(in).Encode()), nil
	}
	return "", nil, fmt.Errorf("instance %q has no endpoint that a client of rpcx can call: want protocol rpcx", in.ID)
}

// rpcxMetadata returns the metadata of an instance: its tags, and its other fields, which
// replace tags of the same name.
func rpcxMetadata(in tandem.Instance) url.Values {
	v := url.Values{}
	for key, value := range in.Tags {
		v.Set(key, value)
	}
	v.Set("state", "active")
	setUnless(v, "group", in.Group)
	setUnless(v, "version", in.Version)
	setUnless(v, "zone", in.Zone)
	if in.Weight != 0 {
		v.Set("weight", strconv.Itoa(in.Weight))
	}
	if in.Position != nil {
		v.Set("latitude", strconv.FormatFloat(in.Position.Latitude, 'f', -1, 64))
		v.Set("longitude", strconv.FormatFloat(in.Position.Longitude, 'f', -1, 64))
	}
	if in.Load != nil {
		v.Set("calls", strconv.FormatFloat(in.Load.Rate, 'f', 2, 64))
	}
	return v
}

// parse reads a server. Its ID is the text of its only endpoint.
func (rpcxLayout) parse(name string, data []byte) (tandem.Instance, error) {
	transport, address, ok := strings.Cut(name, "@")
	if !ok {
		return tandem.Instance{}, fmt.Errorf("name %.100q: want network@address", name)
	}
	if len(data) > adapter.MaxEntry {
		return tandem.Instance{}, fmt.Errorf("entry of %d bytes, limit %d", len(data), adapter.MaxEntry)
	}
	v, err := url.ParseQuery(string(data))
	if err != nil {
		return tandem.Instance{}, err
	}
	if state := v.Get("state"); state != "" && state != "active" {
		return tandem.Instance{}, fmt.Errorf("its state is %.20q", state)
	}
	ep := tandem.Endpoint{Transport: transport, Address: address, Protocol: rpcx}
	in := tandem.Instance{
		ID: ep.String(), Endpoints: []tandem.Endpoint{ep},
		Group: v.Get("group"), Version: v.Get("version"), Zone: v.Get("zone"),
	}
	if in.Weight, err = parseWeight(v); err != nil {
		return in, err
	}
	if in.Position, err = parsePosition(v); err != nil {
		return in, err
	}
	in.Tags = others(v, "state", "group", "version", "zone", "weight", "latitude", "longitude", "calls")
	return in, in.Validate()
}

func parsePosition(v url.Values) (*tandem.Position, error) {
	if !v.Has("latitude") || !v.Has("longitude") {
		return nil, nil
	}
	latitude, err := strconv.ParseFloat(v.Get("latitude"), 64)
	if err != nil {
		return nil, err
	}
	longitude, err := strconv.ParseFloat(v.Get("longitude"), 64)
	if err != nil {
		return nil, err
	}
	return &tandem.Position{Latitude: latitude, Longitude: longitude}, nil
}
