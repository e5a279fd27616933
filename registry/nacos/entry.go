package nacos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Paths of Nacos's open API.
const (
	instancePath = "/v1/ns/instance"
	beatPath     = instancePath + "/beat"
	metadataPath = instancePath + "/metadata/batch"
)

// visible is how long reads of Nacos may show the state before a write. It is half a second
// on an idle server.
const visible = 2 * time.Second

// beatTaken is the code of the response to a beat for an instance that Nacos knows.
const beatTaken = 10200

// entry lists one instance in Nacos: an [adapter.Entry].
type entry struct {
	servers *servers
	place   place

	in      tandem.Instance // the instance of the last Put that tried to register; no ID before
	at      address         // address of in
	text    string          // JSON of in
	written time.Time       // when that Put was made
	strange string          // the JSON that the last Check found in place of text
}

// Put registers the instance, unless its address belongs to another one. If the address has
// changed, Put then removes the instance at the old address.
func (e *entry) Put(ctx context.Context, in tandem.Instance) error {
	at, err := addressOf(&in)
	if err != nil {
		return err
	}
	q := e.place.of(at)
	text, err := describe(q, &in, e.place.ttl)
	if err != nil {
		return err
	}
	if err := e.vacant(ctx, at, &in); err != nil {
		return err
	}
	before, moved := e.at, e.in.ID != "" && e.at != at
	e.in, e.at, e.text, e.written = in, at, text, time.Now()
	if _, err := e.servers.call(ctx, http.MethodPost, instancePath, q); err != nil {
		return err
	}
	if moved {
		// If this fails, Nacos removes the instance itself, as it gets no more beats.
		_ = e.remove(ctx, before, &in)
	}
	return nil
}

// vacant fails if the address belongs to another server that did not start earlier.
func (e *entry) vacant(ctx context.Context, at address, in *tandem.Instance) error {
	listed, err := e.look(ctx, at)
	if err != nil || listed == nil {
		return err
	}
	if other, err := listed.instance(); err == nil {
		return rival(&other, in)
	}
	return nil // not an instance of tandem; it can't run, as our server has the address
}

// rival returns why in must not replace listed at its address, or nil if it may: two servers
// can't have the same address, so the one that started earlier has ended.
func rival(listed, in *tandem.Instance) error {
	switch {
	case adapter.Supersedes(listed, in):
		return registry.ErrSuperseded
	case listed.ID == in.ID, listed.Started.Before(in.Started):
		return nil
	case listed.Started.After(in.Started):
		return fmt.Errorf("it is %q at the same address, which is the id to Nacos: %w", listed.ID, registry.ErrSuperseded)
	}
	return fmt.Errorf("%q is listed at its address, and Nacos lists one for each; end it, or give this one another", listed.ID)
}

// Check sends a beat, which keeps the instance listed, and checks that it is listed with the
// right metadata.
func (e *entry) Check(ctx context.Context) error {
	if err := e.beat(ctx); err != nil {
		return err
	}
	listed, err := e.look(ctx, e.at)
	switch {
	case err != nil:
		return err
	case listed == nil, listed.Metadata[key] == e.text: // Nacos accepted the beat, so it is listed
		e.strange = ""
		return nil
	case time.Since(e.written) < visible:
		return nil
	}
	return e.reclaim(ctx, listed)
}

// beat fails if Nacos does not know the instance.
func (e *entry) beat(ctx context.Context) error {
	body, err := e.servers.call(ctx, http.MethodPut, beatPath, e.place.of(e.at))
	if err != nil {
		return err
	}
	var answer struct {
		Code int `json:"code"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("the answer to a beat is no JSON: %w", err)
	}
	if answer.Code != beatTaken {
		return fmt.Errorf("the response to a beat has code %d (20404: Nacos does not know the instance)", answer.Code)
	}
	return nil
}

// reclaim handles other metadata that are listed at the entry's address. It returns an error,
// so that the instance is registered again. If the same metadata are listed after that, they
// are from an edit in the console and hide those of the entry: reclaim removes them.
func (e *entry) reclaim(ctx context.Context, listed *host) error {
	other, err := listed.instance()
	if err == nil {
		if err := rival(&other, &e.in); err != nil {
			return err
		}
	}
	text, kept := listed.Metadata[key]
	if !kept || text != e.strange || err == nil && other.ID != e.in.ID {
		e.strange = text
		return errors.New("Nacos lists something else at its address") //nolint:staticcheck // a name
	}
	return e.unhide(ctx)
}

// unhide removes our key from the metadata of an edit in the console. The edit's weight, and
// whether it disables the instance, stay. It must only be used if there was an edit: without
// one it would set the weight to 1.
func (e *entry) unhide(ctx context.Context) error {
	instances, err := json.Marshal([]map[string]any{{
		"ip": e.at.host, "port": e.at.port, "clusterName": e.place.clusterName(), "ephemeral": true,
	}})
	if err != nil {
		return err
	}
	q := e.place.query()
	q.Set("consistencyType", "ephemeral")
	q.Set("instances", string(instances))
	q.Set("metadata", `{"`+key+`":""}`)
	_, err = e.servers.call(ctx, http.MethodDelete, metadataPath, q)
	return err
}

// Delete removes the instance.
func (e *entry) Delete(ctx context.Context) error {
	if e.in.ID == "" {
		return nil
	}
	return e.remove(ctx, e.at, &e.in)
}

// remove removes the instance at an address, unless it belongs to another server that did
// not start earlier than in. One that started earlier is an old state that Nacos still shows.
func (e *entry) remove(ctx context.Context, at address, in *tandem.Instance) error {
	listed, err := e.look(ctx, at)
	if err != nil {
		return err
	}
	if listed != nil {
		other, err := listed.instance()
		ours := other.ID == in.ID && other.Incarnation == in.Incarnation
		if err == nil && !ours && !other.Started.Before(in.Started) {
			return nil
		}
	}
	_, err = e.servers.call(ctx, http.MethodDelete, instancePath, e.place.of(at))
	return err
}

// look returns the instance that is listed at an address, disabled or not, or nil if there is
// none. Nacos 3 does not support this read: look then returns nil, and the response to the
// beat must suffice.
func (e *entry) look(ctx context.Context, at address) (*host, error) {
	body, err := e.servers.call(ctx, http.MethodGet, instancePath, e.place.of(at))
	if refusedWith(err, http.StatusNotFound, http.StatusGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var listed host
	if err := json.Unmarshal(body, &listed); err != nil {
		return nil, fmt.Errorf("the instance at %s is no JSON: %w", at, err)
	}
	return &listed, nil
}
