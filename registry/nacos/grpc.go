package nacos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// grpcFields returns the fields of a request that name the service.
func (p place) grpcFields(more map[string]any) map[string]any {
	more["module"] = "naming"
	more["namespace"], more["groupName"], more["serviceName"] = cmp.Or(p.namespace, "public"), cmp.Or(p.group, defaultGroup), p.service
	return more
}

// grpcRelist is the longest time between two subscriptions.
const grpcRelist = 10 * time.Minute

// grpcWatch follows a service by what Nacos sends. A session has a connection of its own.
type grpcWatch struct {
	servers *servers
	place   place
}

// session is the Session of an [adapter.Follower].
func (w grpcWatch) session(ctx context.Context, m *adapter.Mirror) error {
	l, err := w.servers.openLink(ctx, w.place.namespace)
	if err != nil {
		return err
	}
	defer l.close()
	service, err := w.subscribe(ctx, l)
	if err != nil {
		return err
	}
	pause := firstAgain
	again := time.NewTimer(pause)
	defer again.Stop()
	for {
		hosts, err := w.place.hostsIn(service)
		if err != nil {
			return err
		}
		m.Replace(collectHosts(hosts, m.Refuse))
		select {
		case service = <-l.news:
		case <-again.C:
			if service, err = w.subscribe(ctx, l); err != nil {
				return err
			}
			pause = min(2*pause, lastAgain)
			again.Reset(pause)
		case <-l.done:
			return fmt.Errorf("the connection is lost: %w", l.failure)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Times between two subscriptions of a connection. Nacos ignores one that comes before it knows the
// connection everywhere, and says nothing.
const (
	firstAgain = time.Second
	lastAgain  = 30 * time.Second
)

// subscribe returns the service, and has Nacos send its changes.
func (w grpcWatch) subscribe(ctx context.Context, l *link) (json.RawMessage, error) {
	var answer struct {
		Service json.RawMessage `json:"serviceInfo"`
	}
	err := l.call(ctx, "SubscribeServiceRequest", w.place.grpcFields(map[string]any{"subscribe": true, "clusters": ""}), &answer)
	return answer.Service, err
}

// hostsIn returns the hosts of a service that are healthy, and in the place's cluster.
func (p place) hostsIn(service json.RawMessage) ([]json.RawMessage, error) {
	hosts, err := hostsOf(service)
	if err != nil {
		return nil, err
	}
	all, err := split(hosts)
	if err != nil {
		return nil, err
	}
	list := all[:0]
	for _, data := range all {
		var h struct {
			Healthy *bool  `json:"healthy"`
			Cluster string `json:"clusterName"`
		}
		if json.Unmarshal(data, &h) == nil && (h.Healthy != nil && !*h.Healthy || p.cluster != "" && cmp.Or(h.Cluster, "DEFAULT") != p.cluster) {
			continue
		}
		list = append(list, data)
	}
	return list, nil
}

// grpcEntry lists one instance: an [adapter.Entry]. To Nacos an instance belongs to a connection,
// which can have one of each service, so that each entry has a connection of its own.
type grpcEntry struct {
	servers *servers
	place   place
	lost    chan struct{} // has a token when the connection was lost

	link    *link
	in      tandem.Instance // the instance of the last Put
	at      address         // address of in
	text    string          // JSON of in
	former  string          // JSON of the one before, which Nacos may still show
	written time.Time       // when that Put was made
	again   *time.Timer     // calls doubt; may be nil
}

// Put registers the instance, on a new connection if the last one is lost.
func (e *grpcEntry) Put(ctx context.Context, in tandem.Instance) error {
	at, err := addressOf(&in)
	if err != nil {
		return err
	}
	data, err := adapter.Encode(in)
	if err != nil {
		return err
	}
	if err := e.connect(ctx); err != nil {
		return err
	}
	if e.text != string(data) {
		e.former = e.text
	}
	e.in, e.at, e.text, e.written = in, at, string(data), time.Now()
	if err = e.register(ctx); err != nil && e.reason() != nil { // a server may end a connection at once
		if err = e.connect(ctx); err == nil {
			err = e.register(ctx)
		}
	}
	if err != nil {
		return err
	}
	found, err := e.look(ctx)
	if err != nil { // the place is another's
		_ = e.deregister(ctx)
		return err
	}
	if !found {
		// Nacos shows it a little later, or has ignored it, as it does without an error while it does
		// not know the connection everywhere: Check finds out.
		e.again = time.AfterFunc(visible, e.doubt)
	}
	return nil
}

// doubt has the registration checked.
func (e *grpcEntry) doubt() {
	select {
	case e.lost <- struct{}{}:
	default:
	}
}

// reason returns why the connection is lost, nil if it is not.
func (e *grpcEntry) reason() error {
	select {
	case <-e.link.done:
		return fmt.Errorf("the connection is lost: %w", e.link.failure)
	default:
		return nil
	}
}

func (e *grpcEntry) register(ctx context.Context) error {
	return e.link.call(ctx, "InstanceRequest", e.place.grpcFields(map[string]any{"type": "registerInstance", "instance": map[string]any{
		"ip": e.at.host, "port": e.at.port, "weight": weightOf(&e.in), "healthy": true, "enabled": true, "ephemeral": true,
		"clusterName": e.place.clusterName(), "metadata": map[string]string{key: e.text},
	}}), nil)
}

func (e *grpcEntry) deregister(ctx context.Context) error {
	return e.link.call(ctx, "InstanceRequest", e.place.grpcFields(map[string]any{"type": "deregisterInstance", "instance": map[string]any{
		"ip": e.at.host, "port": e.at.port, "ephemeral": true, "clusterName": e.place.clusterName(),
	}}), nil)
}

// connect opens a connection unless there is one.
func (e *grpcEntry) connect(ctx context.Context) error {
	if e.link != nil {
		if e.reason() == nil {
			return nil
		}
		e.drop()
	}
	l, err := e.servers.openLink(ctx, e.place.namespace)
	if err != nil {
		return err
	}
	e.link = l
	l.group.Go(func() {
		<-l.done // close ends the link
		e.doubt()
	})
	return nil
}

func (e *grpcEntry) drop() {
	if e.again != nil {
		e.again.Stop()
	}
	if e.link != nil {
		e.link.close()
		e.link = nil
	}
}

// plainID matches IDs that look the same in JSON, and in JSON that is a string of JSON.
var plainID = regexp.MustCompile(`^[0-9A-Za-z_.:/-]+$`)

// look reports whether Nacos lists the instance. It fails if another one has the right to its
// address or its ID.
func (e *grpcEntry) look(ctx context.Context) (found bool, err error) {
	var answer struct {
		Service json.RawMessage `json:"serviceInfo"`
	}
	query := map[string]any{"cluster": "", "healthyOnly": false, "udpPort": 0}
	if err := e.link.call(ctx, "ServiceQueryRequest", e.place.grpcFields(query), &answer); err != nil {
		return false, err
	}
	hosts, err := hostsOf(answer.Service)
	if err != nil {
		return false, err
	}
	list, err := split(hosts)
	if err != nil {
		return false, err
	}
	id, err := json.Marshal(e.in.ID)
	if err != nil {
		return false, err
	}
	plain := plainID.MatchString(e.in.ID)
	for _, data := range list {
		if plain && !bytes.Contains(data, []byte(e.at.host)) && !bytes.Contains(data, []byte(e.in.ID)) {
			continue // the list may be long, and each entry reads it
		}
		var h host
		if json.Unmarshal(data, &h) != nil {
			continue
		}
		own, err := e.compare(&h, string(id))
		if err != nil {
			return false, err
		}
		found = found || own
	}
	return found, nil
}

// compare reports whether a host is the entry's instance. It fails if the host has the right to its
// address or its ID, which is id as JSON.
func (e *grpcEntry) compare(h *host, id string) (own bool, err error) {
	listed, here := h.Metadata[key], h.address() == e.at
	switch {
	case listed == e.text:
		return here, nil
	case listed == "" || listed == e.former || !here && !strings.Contains(listed, id):
		return false, nil
	}
	other, err := h.instance()
	switch {
	case err != nil:
		return false, nil //nolint:nilerr // another framework's
	case here:
		return false, rival(&other, &e.in)
	case other.ID == e.in.ID && adapter.Supersedes(&other, &e.in):
		return false, registry.ErrSuperseded
	}
	return false, nil
}

// Check fails if the connection is lost, or Nacos does not list the instance.
func (e *grpcEntry) Check(ctx context.Context) error {
	if e.link == nil {
		return errors.New("there is no connection")
	}
	if err := e.reason(); err != nil {
		return err
	}
	found, err := e.look(ctx)
	if err == nil && !found && time.Since(e.written) >= visible {
		err = errors.New("Nacos does not list it") //nolint:staticcheck // a name
	}
	return err
}

// Delete removes the instance and closes the connection.
func (e *grpcEntry) Delete(ctx context.Context) error {
	if e.link == nil {
		return nil
	}
	defer e.drop()
	err := e.deregister(ctx)
	if _, refused := errors.AsType[*resultError](err); refused {
		return err
	}
	return nil // without an answer, too: the instance goes with the connection
}
