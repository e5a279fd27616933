package nacos

import (
	"context"
	"crypto/md5" //nolint:gosec // Nacos compares texts by it
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
)

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
func (r *Registry) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	d, err := r.document(key)
	if err != nil {
		return err
	}
	s, release, err := r.shared.Acquire(r.place.servers)
	if err != nil {
		return err
	}
	defer release()
	d.servers = s
	return registry.DocumentFollower{Name: name, Session: d.session}.Follow(ctx, update)
}

// document returns the configuration that a key names.
func (r *Registry) document(key string) (document, error) {
	d := document{servers: r.servers, poll: r.place.poll, mostReports: registry.MaxReports}
	if r.place.namespace != "public" {
		d.namespace = r.place.namespace
	}
	var err error
	if d.group, d.dataID, err = splitPath(key); err == nil && (!strings.HasPrefix(key, "/") || len(d.dataID) > maxDataID) {
		err = errors.New("want a slash before it, and a name of at most 240 bytes")
	}
	if err != nil {
		return d, fmt.Errorf("%s: key %.100q: want /group/dataId or /dataId: %w", name, key, err)
	}
	if d.group == "" {
		d.group = "DEFAULT_GROUP"
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

// session is the Session of a [registry.DocumentFollower].
func (d document) session(ctx context.Context, deliver func([]byte)) error {
	for {
		text, err := d.read(ctx)
		if err != nil {
			return err
		}
		deliver(text)
		if err := d.wait(ctx, text); err != nil {
			return err
		}
		if err := rest(ctx, restPause); err != nil {
			return err
		}
	}
}

// read returns the document, nil if there is none.
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
		of := md5.Sum(text) //nolint:gosec // see the import
		sum = hex.EncodeToString(of[:])
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

// WriteDocument publishes a configuration, or deletes it. See [registry.DocumentWriter].
func (r *Registry) WriteDocument(ctx context.Context, key string, text []byte) error {
	d, err := r.document(key)
	if err != nil {
		return err
	}
	if err := registry.CheckDocument(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	method, q := http.MethodDelete, d.query()
	if len(text) > 0 {
		method = http.MethodPost
		q.Set("content", string(text))
	}
	body, err := d.servers.call(ctx, method, configPath, q)
	if err == nil && strings.TrimSpace(string(body)) != "true" {
		err = fmt.Errorf("Nacos did not accept it: %.200q", body) //nolint:staticcheck // a name
	}
	if err != nil {
		return fmt.Errorf("%s: writing %s: %w", name, key, err)
	}
	return nil
}
