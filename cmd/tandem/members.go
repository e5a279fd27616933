package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
)

// members are the instances of a place, which are asked by their admin API.
type members struct {
	c         *client.Client // follows the list
	instances []string       // IDs at first
}

// ids returns the instances that are listed now; the last ones that were, while there are none.
func (w *members) ids() []string {
	var now []string
	for _, attempt := range w.c.Describe("").Attempts {
		for i := range attempt.Instances {
			now = append(now, attempt.Instances[i].ID)
		}
	}
	if len(now) > 0 {
		w.instances = now
	}
	return w.instances
}

// askTime bounds a request to the admin API of an instance.
const askTime = 5 * time.Second

// membersOf returns the instances of a target that are listed now. Close its client.
func membersOf(ctx context.Context, p *place) (*members, error) {
	list, err := p.instances(ctx)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s lists no instance", p.target)
	}
	w := &members{}
	for i := range list {
		w.instances = append(w.instances, list[i].ID)
	}
	w.c, err = p.dial(client.WithCodec(codec.JSON()), client.WithFailMode(client.Failfast), client.WithTimeout(askTime))
	return w, err
}

// figures returns the figures of all instances together, by method, and an error for those that
// do not answer; it fails if none answers.
func (w *members) figures(ctx context.Context, req admin.MethodsRequest) (sum []admin.MethodFigure, silent error, err error) {
	by := map[string][]admin.MethodFigure{}
	var names []string
	answered := 0
	var missing error // what those say that do not have the client
	for _, id := range w.ids() {
		m, err := client.Invoke[admin.Methods](ctx, w.c, admin.Service+".Methods", req, client.Instance(id))
		switch {
		case tandem.CodeOf(err) == tandem.NotFound:
			missing = fmt.Errorf("%s: %w", id, err)
			continue
		case err != nil:
			silent = errors.Join(silent, fmt.Errorf("%s: %w", id, withoutAdmin(err)))
			continue
		}
		answered++
		for _, f := range m.Methods {
			if by[f.Method] == nil {
				names = append(names, f.Method)
			}
			by[f.Method] = append(by[f.Method], f)
		}
	}
	if answered == 0 {
		return nil, nil, cmp.Or(missing, silent)
	}
	for _, name := range names {
		sum = append(sum, admin.Sum(by[name]...))
	}
	return sum, silent, nil
}

// withoutAdmin explains the error of a server that has no admin API.
func withoutAdmin(err error) error {
	if tandem.CodeOf(err) == tandem.Unimplemented {
		return fmt.Errorf("it has no admin API: see package admin: %w", err)
	}
	return err
}
