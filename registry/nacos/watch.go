package nacos

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tandem-rpc/tandem/registry/adapter"
)

// watch polls the list of a service.
type watch struct {
	servers *servers
	place   place
}

// session is the Session of an [adapter.Follower]. A list with the same bytes as the last one
// is not decoded.
func (w watch) session(ctx context.Context, m *adapter.Mirror) error {
	var last json.RawMessage
	for {
		hosts, err := w.ask(ctx)
		if err != nil {
			return err
		}
		if !bytes.Equal(hosts, last) {
			list, err := split(hosts)
			if err != nil {
				return err
			}
			m.Replace(collectHosts(list, m.Refuse))
			last = hosts
		}
		pause := time.NewTimer(w.place.poll - rand.N(w.place.poll/8+1)) // jitter, so that watches that began together spread out
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// ask reads the whole list.
func (w watch) ask(ctx context.Context) (json.RawMessage, error) {
	q := w.place.query()
	q.Set("healthyOnly", "true")
	if w.place.cluster != "" {
		q.Set("clusters", w.place.cluster)
	}
	body, err := w.servers.call(ctx, http.MethodGet, instancePath+"/list", q)
	if err != nil {
		return nil, err
	}
	return hostsOf(body)
}
