package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Documents are texts by key in a registry, and the reports about them. Package registry
// documents the methods; its etcd, ZooKeeper, file and memory registries implement them.
type Documents interface {
	WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error
	PutReport(ctx context.Context, key, name string, report []byte, life time.Duration) error
	Reports(ctx context.Context, key string) (map[string][]byte, error)
}

// FromRegistry returns the policy that a registry has under a key. Clients report to the same
// registry.
func FromRegistry(d Documents, key string) Source { return entry{d, key} }

type entry struct {
	documents Documents
	key       string
}

func (e entry) Watch(ctx context.Context, update func(text []byte, err error)) error {
	return e.documents.WatchDocument(ctx, e.key, update)
}

func (e entry) Report(ctx context.Context, a Applied) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return e.documents.PutReport(ctx, e.key, a.Client, text, ReportLife)
}

func (e entry) Applied(ctx context.Context) ([]Applied, error) {
	reports, err := e.documents.Reports(ctx, e.key)
	if err != nil {
		return nil, err
	}
	return readReports(reports)
}

// readReports decodes reports and sorts them by the client's name. Texts that are no reports
// are left out, and named in the error.
func readReports(reports map[string][]byte) ([]Applied, error) {
	list := make([]Applied, 0, len(reports))
	var errs []error
	for name, text := range reports {
		var a Applied
		if err := json.Unmarshal(text, &a); err != nil {
			errs = append(errs, fmt.Errorf("policy: report %.100q: %w", name, err))
			continue
		}
		if !a.Ended {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b Applied) int { return cmp.Compare(a.Client, b.Client) })
	return list, errors.Join(errs...)
}

// Decoded returns a source whose documents are in another format than JSON, such as YAML.
// decode turns a document into JSON; it must be safe for concurrent use.
func Decoded(src Source, decode func(text []byte) (json []byte, err error)) Source {
	d := decoded{src, decode}
	r, takes := src.(Reporter)
	l, lists := src.(Reports)
	if takes && lists {
		return struct {
			decoded
			Reporter
			Reports
		}{d, r, l}
	}
	if takes {
		return struct {
			decoded
			Reporter
		}{d, r}
	}
	return d
}

type decoded struct {
	source Source
	decode func([]byte) ([]byte, error)
}

func (d decoded) Watch(ctx context.Context, update func(text []byte, err error)) error {
	return d.source.Watch(ctx, func(text []byte, err error) {
		if err == nil {
			if text, err = d.decode(text); err != nil {
				text = nil
			}
		}
		update(text, err)
	})
}
