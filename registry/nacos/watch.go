package nacos

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// watch looks at a service's list again and again.
type watch struct {
	servers *servers
	place   place
}

// session is a [registry.Follower]'s. Who compares instances is its Feed; a list that
// reads as the last one did is not even decoded.
func (w watch) session(ctx context.Context, m *registry.Mirror) error {
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
		pause := time.NewTimer(w.place.poll - rand.N(w.place.poll/8+1)) // watches that began together drift apart
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
