package etcd

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// WithRPCX selects the layout of rpcx's etcd v3 plugin, as does the option layout=rpcx
// of a target: rpcx clients find the servers that register there, and watches find
// rpcx servers. The directory is rpcx's base path and the name of the service, and the
// server at tcp://10.0.0.7:8972 is
//
//	/rpcx_test/Arith/tcp@10.0.0.7:8972
//
// whose value is a URL query: weight=7&group=test&latitude=52.5&longitude=13.4. An
// entry of tandem also has the whole instance, as JSON under the name "tandem", which
// rpcx ignores. An instance made from an entry of rpcx has an ID made from its key, an
// endpoint of the protocol "rpcx", the weight 1 if it has none, and the other names of
// the query as tags, except the counters calls and connections, which change all the
// time. Servers with state=inactive are not listed.
//
// rpcx sees only the first endpoint of an instance, and two instances can't have the
// same first endpoint. For calls between the two, the server or the client must also
// support the protocol of the other.
func WithRPCX() Option { return func(o *options) { o.rpcx = true } }

// rpcxProtocol is the protocol of endpoints that rpcx registered.
const rpcxProtocol = "rpcx"

// maxQuery is the largest size of a value, in bytes: the escaped JSON, and the fields
// of the instance that rpcx reads.
const maxQuery = 4 * adapter.MaxEntry

// rpcx is rpcx's layout.
type rpcx struct{}

func (rpcx) key(in *tandem.Instance) (string, error) {
	if err := in.Validate(); err != nil {
		return "", err
	}
	ep := in.Endpoints[0]
	if strings.ContainsAny(ep.Transport, "@/") || strings.Contains(ep.Address, "/") {
		return "", fmt.Errorf("the first endpoint of instance %q is %q, which rpcx's layout can't hold; begin with one such as tcp://host:port", in.ID, ep)
	}
	return ep.Transport + "@" + ep.Address, nil
}

func (rpcx) encode(in *tandem.Instance) ([]byte, error) {
	all, err := adapter.Encode(*in)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	for tag, value := range in.Tags {
		q.Set(tag, value)
	}
	for _, known := range []string{"state", "group", "latitude", "longitude", "calls", "connections"} {
		q.Del(known) // rpcx would read a tag with this name as its own field
	}
	weight := in.Weight
	if weight == 0 {
		weight = tandem.DefaultWeight
	}
	q.Set("weight", strconv.Itoa(weight))
	if in.Group != "" {
		q.Set("group", in.Group)
	}
	if in.Position != nil {
		q.Set("latitude", strconv.FormatFloat(in.Position.Latitude, 'g', -1, 64))
		q.Set("longitude", strconv.FormatFloat(in.Position.Longitude, 'g', -1, 64))
	}
	q.Set("tandem", string(all))
	return []byte(q.Encode()), nil
}

// errInactive is the reason for which a valid entry of an inactive server is not listed.
var errInactive = errors.New("its state is inactive")

func (rpcx) decode(key string, value []byte) (in tandem.Instance, err error) {
	if len(value) > maxQuery {
		return in, fmt.Errorf("entry of %d bytes, limit %d", len(value), maxQuery)
	}
	q, err := url.ParseQuery(string(value))
	if err != nil {
		return in, err
	}
	if q.Get("state") == "inactive" {
		return in, errInactive
	}
	if q.Has("tandem") {
		in, err = adapter.Decode([]byte(q.Get("tandem")))
	} else {
		in, err = fromRPCX(key, q)
	}
	if err != nil {
		return tandem.Instance{}, err
	}
	if its, err := (rpcx{}).key(&in); err != nil || its != key {
		return tandem.Instance{}, fmt.Errorf("it is of instance %.100q, whose key is another", in.ID)
	}
	return in, nil
}

// fromRPCX makes an instance from an entry of rpcx.
func fromRPCX(key string, q url.Values) (in tandem.Instance, err error) {
	transport, address, _ := strings.Cut(key, "@")
	ep := tandem.Endpoint{Transport: transport, Address: address, Protocol: rpcxProtocol}
	in = tandem.Instance{ID: ep.String(), Endpoints: []tandem.Endpoint{ep}, Weight: 1, Group: q.Get("group")}
	if q.Has("weight") {
		if in.Weight, err = strconv.Atoi(q.Get("weight")); err != nil || in.Weight < 1 {
			return in, fmt.Errorf("weight %.20q: want a number from 1 on", q.Get("weight"))
		}
	}
	if q.Has("latitude") && q.Has("longitude") {
		if in.Position, err = position(q.Get("latitude"), q.Get("longitude")); err != nil {
			return in, err
		}
	}
	for _, known := range []string{"state", "group", "weight", "latitude", "longitude", "calls", "connections"} {
		q.Del(known)
	}
	if len(q) > 0 {
		in.Tags = make(map[string]string, len(q))
	}
	for tag := range q {
		in.Tags[tag] = q.Get(tag)
	}
	return in, in.Validate()
}

func position(latitude, longitude string) (*tandem.Position, error) {
	lat, err1 := strconv.ParseFloat(latitude, 64)
	long, err2 := strconv.ParseFloat(longitude, 64)
	return &tandem.Position{Latitude: lat, Longitude: long}, errors.Join(err1, err2)
}
