package nacos

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
	_ registry.DocumentFinder = (*Registry)(nil)
	_ registry.DocumentFinder = (*resolver)(nil)
	_ registry.DocumentWriter = documents{}
)

// documents are the configurations in the namespace of a place.
type documents struct {
	resolver *resolver
	place    place
	own      *servers // nil for a Resolver, which shares the connections of its watches
}

// Data IDs of the documents that DocumentsOf names. The first is followed by the name of the
// service, the second by its beginning and a hash.
const (
	overridesOf     = "tandem-overrides."
	overridesOfLong = "tandem-overrides-long."
)

// DocumentsOf returns the configurations in the namespace that the target names. The key of
// the document of the service Orders in the group shop is /shop/tandem-overrides.Orders; of
// a name that is too long for that, it has a hash. It is the same for all clusters of the
// service. See [registry.DocumentFinder].
func (r *resolver) DocumentsOf(target registry.Target) (d registry.Documents, key string, err error) {
	at, err := r.parse(target)
	if err != nil {
		return nil, "", err
	}
	return documents{r, at, nil}, at.overridesKey(), nil
}

// DocumentsOf is that of a Resolver; the zero Target names the registry's own service. See
// [registry.DocumentFinder].
func (r *Registry) DocumentsOf(target registry.Target) (d registry.Documents, key string, err error) {
	if target.Address() == "" {
		return r.documents, r.place.overridesKey(), nil
	}
	return r.resolver.DocumentsOf(target)
}

// overridesKey returns the key of the document with the overrides of the service.
func (p place) overridesKey() string {
	dataID := overridesOf + p.service
	if len(dataID) > maxDataID {
		sum := sha256.Sum256([]byte(p.service))
		tail := "." + hex.EncodeToString(sum[:])
		dataID = overridesOfLong + p.service[:maxDataID-len(overridesOfLong)-len(tail)] + tail
	}
	return "/" + cmp.Or(p.group, defaultGroup) + "/" + dataID
}

// defaultGroup is Nacos's group of what names none.
const defaultGroup = "DEFAULT_GROUP"

// Paths of Nacos's open API for configurations.
const (
	configPath   = "/v1/cs/configs"
	listenerPath = configPath + "/listener"
)

// Times of a document's watch.
const (
	// listenFor is how long a listener waits for a change, the least that Nacos allows. Then
	// the document is read again: Nacos can miss a change between a read and the listener
	// after it, as it compares with the text that it has when the listener begins.
	listenFor = 10 * time.Second
	// restPause is the least time between two reads.
	restPause = 100 * time.Millisecond
	// conflicts bounds the reads of a document while it is being written.
	conflicts = 20
)

// maxDataID is the largest size of a document's name in Nacos, in bytes.
const maxDataID = 240

// document is one of Nacos's configurations.
type document struct {
	servers                  *servers
	namespace, group, dataID string
	poll                     time.Duration
	mostReports              int
}

// WatchDocument delivers a configuration and its changes. The key is /group/dataId, or
// /dataId in Nacos's DEFAULT_GROUP, in the namespace of the registry's target. A change that
// Nacos's listener misses is delivered within ten seconds. Four watches at a time have a
// listener; the others poll every two seconds (see [WithPoll]). See [registry.Documents].
func (ds documents) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	ds.own = nil // a watch has the connections of watches, also those of a Registry
	d, release, err := ds.connect(key)
	if err != nil {
		return err
	}
	defer release()
	return adapter.DocumentFollower{Name: name, Session: d.session}.Follow(ctx, update)
}

// connect returns the configuration that a key names, and the function that releases its
// connections.
func (ds documents) connect(key string) (document, func(), error) {
	d, err := ds.document(key)
	if err != nil {
		return d, nil, err
	}
	if d.servers != nil {
		return d, func() {}, nil
	}
	s, release, err := ds.resolver.shared.Acquire(ds.place.servers)
	d.servers = s
	return d, release, err
}

// document returns the configuration that a key names.
func (ds documents) document(key string) (document, error) {
	d := document{servers: ds.own, poll: ds.place.poll, mostReports: registry.MaxReports}
	if ds.place.namespace != "public" {
		d.namespace = ds.place.namespace
	}
	var err error
	if d.group, d.dataID, err = splitPath(key); err == nil && (!strings.HasPrefix(key, "/") || len(d.dataID) > maxDataID) {
		err = errors.New("want a slash before it, and a name of at most 240 bytes")
	}
	if err != nil {
		return d, fmt.Errorf("%s: key %.100q: want /group/dataId or /dataId: %w", name, key, err)
	}
	if d.group == "" {
		d.group = defaultGroup
	}
	return d, nil
}

// query returns the parameters that name the document.
func (d document) query() url.Values {
	q := url.Values{"dataId": {d.dataID}, "group": {d.group}}
	if d.namespace != "" {
		q.Set("tenant", d.namespace)
	}
	return q
}

// session is the Session of an [adapter.DocumentFollower].
func (d document) session(ctx context.Context, deliver func([]byte)) error {
	for {
		text, err := d.read(ctx)
		if err != nil {
			return err
		}
		deliver(textOf(text))
		if err := d.wait(ctx, text); err != nil {
			return err
		}
		if err := rest(ctx, restPause); err != nil {
			return err
		}
	}
}

// read returns the configuration, nil if there is none; see textOf.
func (d document) read(ctx context.Context) (text []byte, err error) {
	for range conflicts {
		text, err = d.servers.call(ctx, http.MethodGet, configPath, d.query())
		if !refusedWith(err, http.StatusConflict) { // it is being written
			break
		}
		if err := rest(ctx, restPause); err != nil {
			return nil, err
		}
	}
	if refusedWith(err, http.StatusNotFound) {
		return nil, nil
	}
	return text, err
}

// wait waits until the document may have changed.
func (d document) wait(ctx context.Context, text []byte) error {
	select {
	case d.servers.held <- struct{}{}:
	default:
		return rest(ctx, d.poll-rand.N(d.poll/8+1))
	}
	defer func() { <-d.servers.held }()
	sum := ""
	if len(text) > 0 {
		sum = md5Of(text)
	}
	fields := []string{d.dataID, d.group, sum}
	if d.namespace != "" {
		fields = append(fields, d.namespace)
	}
	q := url.Values{"Listening-Configs": {strings.Join(fields, "\x02") + "\x01"}}
	_, err := d.servers.do(ctx, request{method: http.MethodPost, path: listenerPath, query: q, hold: listenFor})
	return err
}

// rest waits for d. It returns ctx's error if ctx ends before.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
