package nacos

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// key is the metadata key that has the instance as JSON.
const key = "tandem"

// addressOf returns the host and port of the first endpoint that has both. The zone of an
// IPv6 address is left out: some versions of Nacos don't keep '%'.
func addressOf(in *tandem.Instance) (address, error) {
	for _, ep := range in.Endpoints {
		host, port, err := net.SplitHostPort(ep.Address)
		host, _, _ = strings.Cut(host, "%")
		if err == nil && host != "" && validPort(port) {
			n, err := strconv.Atoi(port)
			return address{host, n}, err
		}
	}
	return address{}, fmt.Errorf("instance %q: %w", in.ID, errNoAddress)
}

// describe adds weight and metadata to the parameters q of an instance, and returns the
// instance as JSON, which is part of the metadata. Nacos's own metadata keys set after which
// time without a beat the instance is unhealthy, which hides it, and when it is removed.
func describe(q url.Values, in *tandem.Instance, ttl time.Duration) (string, error) {
	data, err := adapter.Encode(*in)
	if err != nil {
		return "", err
	}
	millis := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	metadata, err := json.Marshal(map[string]string{
		key:                             string(data),
		"preserved.heart.beat.interval": millis(ttl / 3),
		"preserved.heart.beat.timeout":  millis(ttl),
		"preserved.ip.delete.timeout":   millis(2 * ttl),
	})
	if err != nil {
		return "", err
	}
	q.Set("weight", strconv.Itoa(weightOf(in)))
	q.Set("metadata", decodeProof.Replace(string(metadata)))
	return string(data), nil
}

// decodeProof escapes the characters in JSON strings that a second URL decoding would change:
// some versions of Nacos decode parameters twice.
var decodeProof = strings.NewReplacer("%", `\u0025`, "+", `\u002b`)

func weightOf(in *tandem.Instance) int {
	if in.Weight == 0 {
		return tandem.DefaultWeight
	}
	return in.Weight
}

// host is an instance in a response of Nacos.
type host struct {
	IP       string            `json:"ip"`
	Port     int               `json:"port"`
	Weight   float64           `json:"weight"`
	Enabled  *bool             `json:"enabled"` // nil if the response does not have it
	Metadata map[string]string `json:"metadata"`
}

func (h *host) address() address { return address{h.IP, h.Port} }

// idle reports whether the instance was taken out of use in the console: disabled, or with a
// weight of 0, which Nacos's own clients treat the same.
func (h *host) idle() bool { return h.Enabled != nil && !*h.Enabled || h.Weight <= 0 }

// instance returns the instance in the host's metadata, with the weight in Nacos if that
// differs.
func (h *host) instance() (tandem.Instance, error) {
	text, ok := h.Metadata[key]
	if !ok {
		return tandem.Instance{}, fmt.Errorf("it has no metadata %q: another framework's, or put in by hand", key)
	}
	in, err := adapter.Decode([]byte(text))
	if err != nil {
		return in, err
	}
	at, err := addressOf(&in)
	if err != nil {
		return in, err
	}
	if at != h.address() {
		return in, fmt.Errorf("its metadata are those of %s", at)
	}
	if h.Weight != float64(weightOf(&in)) {
		in.Weight = int(math.Ceil(min(max(h.Weight, 1), tandem.MaxWeight)))
	}
	return in, nil
}

// hostsOf returns the hosts of Nacos's response to a list request, not decoded.
func hostsOf(answer []byte) (json.RawMessage, error) {
	var list struct {
		Hosts json.RawMessage `json:"hosts"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("the list is no JSON: %w", err)
	}
	if list.Hosts == nil {
		return nil, errors.New("the response is no list; is this a Nacos server?")
	}
	return list.Hosts, nil
}

// split returns the hosts of a list, each to be decoded separately, so that an invalid one
// does not affect the others.
func split(hosts json.RawMessage) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(hosts, &list); err != nil {
		return nil, fmt.Errorf("the hosts are no list: %w", err)
	}
	return list[:min(len(list), 2*registry.MaxInstances)], nil
}

// collectHosts returns the instances of a list, by address. It calls refuse for invalid
// hosts, and skips those that are out of use.
func collectHosts(list []json.RawMessage, refuse func(key string, reason error)) map[string]tandem.Instance {
	found := make(map[string]tandem.Instance, len(list))
	for i, data := range list {
		var h host
		if err := json.Unmarshal(data, &h); err != nil {
			refuse("host "+strconv.Itoa(i), err)
			continue
		}
		if h.idle() {
			continue
		}
		in, err := h.instance()
		if err != nil {
			refuse(h.address().String(), err)
			continue
		}
		at := h.address().String()
		if before, twice := found[at]; twice && before.Started.After(in.Started) {
			continue // over gRPC, each of two processes may list the address
		}
		found[at] = in
	}
	dropTwins(found, refuse)
	return found
}

// dropTwins removes, of the instances with the same ID, all but the one that started last: a
// server that was restarted with another address, or has been updated to it.
func dropTwins(found map[string]tandem.Instance, refuse func(key string, reason error)) {
	keeper := make(map[string]string, len(found))
	for _, at := range sortedKeys(found) {
		in := found[at]
		other, twin := keeper[in.ID]
		if !twin {
			keeper[in.ID] = at
			continue
		}
		first, last := other, at
		if !in.Started.After(found[other].Started) {
			first, last = at, other
		}
		keeper[in.ID] = last
		delete(found, first)
		refuse(first, fmt.Errorf("its id, %q, is that of %s", in.ID, last))
	}
}

func sortedKeys(m map[string]tandem.Instance) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
