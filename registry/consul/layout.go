package consul

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Names of the parts of an instance, and limits. See the package comment.
const (
	pathKey  = "tandem-path"
	ownerKey = "tandem-owner"
	partKey  = "tandem-" // followed by the number of the part
	restTag  = "tandem-rest:"
	maxValue = 512 // bytes of a value of meta, Consul's limit
	maxParts = 60  // keys of meta for the instance, of the 64 that Consul allows
	maxPlain = 200 // bytes of an ID before the rest is replaced by a hash
)

// removeAfter is how long a check is critical before Consul removes the service: the
// shortest time that Consul allows.
const removeAfter = time.Minute

// errForeign is the reason why a service of the same name is skipped.
var errForeign = errors.New("it was not registered by tandem: its meta has no " + pathKey)

// registration returns the service for an instance. It fails for an instance that is
// not valid.
func (p place) registration(in tandem.Instance) (*api.AgentServiceRegistration, error) {
	data, err := adapter.Encode(in)
	if err != nil {
		return nil, err
	}
	meta, tags := split(string(data))
	meta[pathKey] = p.path
	id := p.serviceID(in.ID)
	host, port := address(in.Endpoints)
	return &api.AgentServiceRegistration{
		ID: id, Name: p.serviceName(), Meta: meta, Tags: tags, Address: host, Port: port,
		Check: &api.AgentServiceCheck{
			CheckID: checkID(id), Name: "the process lives", TTL: p.ttl.String(), Status: api.HealthPassing,
			DeregisterCriticalServiceAfter: removeAfter.String(),
		},
	}, nil
}

// instance returns the instance of a service, which may have any content. When mine is
// false, the service belongs to another list.
func (p place) instance(s *api.AgentService) (in tandem.Instance, mine bool, err error) {
	path, some := s.Meta[pathKey]
	switch {
	case !some:
		return in, true, errForeign
	case path != p.path:
		return in, false, nil
	}
	data, err := join(s.Meta, s.Tags)
	if err != nil {
		return in, true, err
	}
	if in, err = adapter.Decode([]byte(data)); err != nil {
		return in, true, err
	}
	if want := p.serviceID(in.ID); s.ID != want {
		return in, true, fmt.Errorf("instance %q belongs under %q", in.ID, want)
	}
	return in, true, nil
}

// split distributes the text over values of meta, and puts the rest into a tag. It is
// the reverse of join.
func split(text string) (meta map[string]string, tags []string) {
	meta = make(map[string]string)
	for i := 0; text != "" && i < maxParts; i++ {
		var part string
		part, text = cut(text, maxValue)
		meta[partKey+strconv.Itoa(i)] = part
	}
	if text != "" {
		tags = []string{restTag + text}
	}
	return meta, tags
}

// cut cuts text after up to limit bytes, between characters: Consul's values are
// JSON strings.
func cut(text string, limit int) (head, tail string) {
	if len(text) <= limit {
		return text, ""
	}
	for limit > 1 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit], text[limit:]
}

// join returns the text that split has distributed. It ignores other keys and tags.
func join(meta map[string]string, tags []string) (string, error) {
	var text strings.Builder
	for i := range maxParts {
		part, some := meta[partKey+strconv.Itoa(i)]
		if !some {
			break
		}
		text.WriteString(part)
	}
	for _, tag := range tags {
		if rest, ok := strings.CutPrefix(tag, restTag); ok {
			text.WriteString(rest)
			break
		}
	}
	if text.Len() == 0 {
		return "", fmt.Errorf("its meta has no %s0", partKey)
	}
	return text.String(), nil
}

// serviceName returns the name of the service in Consul.
func (p place) serviceName() string { return escape(p.service, true) }

// serviceID returns the ID of an instance's service. It is unique for the instance and
// the path, because an agent has one set of IDs for all services.
func (p place) serviceID(instance string) string {
	id := escape(instance, false) + "@" + escape(strings.TrimPrefix(p.path, "/"), false)
	if len(id) <= maxPlain {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return id[:maxPlain] + "~" + hex.EncodeToString(sum[:])
}

// checkID returns the ID of the check with the time to live of a service.
func checkID(service string) string { return "service:" + service }

// escape leaves lower-case letters, digits, '-', '_', ':' and inner '.' as they are, and
// with upper also upper-case letters. Other bytes become '=' and two hexadecimal digits:
// not '%', which some versions of Consul decode twice.
func escape(s string, upper bool) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		plain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || upper && 'A' <= c && c <= 'Z' ||
			c == '-' || c == '_' || c == ':' || c == '.' && i > 0
		if plain {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	return b.String()
}

// address returns the host and port of the first endpoint that has them, for Consul to
// show. It skips unspecified addresses, which Consul refuses.
func address(endpoints []tandem.Endpoint) (host string, port int) {
	for _, ep := range endpoints {
		host, text, err := net.SplitHostPort(ep.Address)
		if err != nil || host == "" {
			continue
		}
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			continue
		}
		if port, err := strconv.ParseUint(text, 10, 16); err == nil {
			return host, int(port)
		}
	}
	return "", 0
}
