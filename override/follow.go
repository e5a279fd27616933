package override

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tandem-rpc/tandem/registry/adapter"

	"github.com/tandem-rpc/tandem/registry"
)

// firstWait is how long a list waits for the first document, so that instances that are
// disabled get no calls from a client that has just started.
const firstWait = 500 * time.Millisecond

// Follower applies the overrides of a list to it, and follows both. Set the fields before use; it
// serves one list.
type Follower struct {
	Documents registry.Documents
	Key       string
	// File keeps the last document for a start while the registry does not answer; "" for none.
	File string
	Log  *slog.Logger // nil for no log
	// Applied is called for each document with its version, see [VersionOf], and with why it was
	// not applied, if so. It must not block. It may be nil.
	Applied func(version string, err error)
}

// Run watches a list and the document until ctx ends, and passes the list to update, one call at
// a time, without the instances that get no calls, and with the weights that are set. While the
// document can't be read, or is not valid, the last one stays in force. watch is the Watch of a
// [adapter.Keeper]; its error is that of Run.
func (f *Follower) Run(ctx context.Context, watch func(context.Context, func(adapter.View)) error, update func(adapter.View)) error {
	if f.Log == nil {
		f.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	views, texts := make(chan adapter.View), make(chan document)
	ended, documentEnded := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- watch(ctx, func(v adapter.View) {
			select {
			case views <- v:
			case <-ctx.Done():
			}
		})
	}()
	go func() {
		defer close(documentEnded)
		f.watchDocument(ctx, texts)
	}()
	defer func() { cancel(); <-documentEnded }()
	return f.loop(views, texts, ended, update)
}

// document is what WatchDocument delivers.
type document struct {
	text []byte
	err  error
}

func (f *Follower) watchDocument(ctx context.Context, texts chan<- document) {
	deliver := func(text []byte, err error) {
		select {
		case texts <- document{text, err}:
		case <-ctx.Done():
		}
	}
	if err := f.Documents.WatchDocument(ctx, f.Key, deliver); ctx.Err() == nil {
		deliver(nil, fmt.Errorf("overrides are not followed any more: %w", err))
	}
}

func (f *Follower) loop(views <-chan adapter.View, texts <-chan document, ended <-chan error, update func(adapter.View)) error {
	var (
		view        *adapter.View // the last list
		set         = f.saved()
		known       bool // the document was read, or is not waited for any more
		cold, again <-chan time.Time
	)
	for {
		select {
		case v := <-views:
			view = &v
			switch {
			case v.Stale != nil: // nor will the document come soon
				known = true
			case !known && cold == nil:
				cold = time.After(firstWait)
			}
		case d := <-texts:
			known, set = true, f.take(d, set)
		case <-cold:
			known = true
		case <-again:
		case err := <-ended:
			return err
		}
		if view == nil || !known {
			continue
		}
		now := time.Now()
		effect := set.Apply(view.Instances, now)
		update(effect.view(*view))
		again = nil
		if !effect.Next.IsZero() {
			again = time.After(effect.Next.Sub(now))
		}
	}
}

// view returns a list as clients use it.
func (e *Effect) view(v adapter.View) adapter.View {
	v.Instances = e.Enabled
	for id, s := range e.Withheld {
		if v.Withheld == nil {
			v.Withheld = make(map[string]string, len(e.Withheld))
		}
		v.Withheld[id] = s.String()
	}
	return v
}

// take returns the overrides of a document, or those before if it can't be used.
func (f *Follower) take(d document, before *Overrides) *Overrides {
	switch {
	case errors.Is(d.err, registry.ErrNoDocument):
		d.text, d.err = nil, nil
	case d.err != nil:
		f.Log.Warn("overrides can't be read; those that were read last stay in force", "error", d.err)
		return before
	}
	o, err := Parse(d.text)
	if err != nil {
		f.Log.Warn("overrides are invalid; those before stay in force", "error", err)
		f.tell(VersionOf(d.text), err)
		return before
	}
	f.save(d.text)
	if len(d.text) > 0 {
		f.Log.Info("overrides are applied", "revision", o.Change.Revision, "by", o.Change.By, "why", o.Change.Why)
		f.tell(VersionOf(d.text), nil)
	} else if len(before.Set) > 0 {
		f.Log.Warn("overrides were deleted: all listed instances get calls again")
	}
	return o
}

func (f *Follower) tell(version string, err error) {
	if f.Applied != nil {
		f.Applied(version, err)
	}
}

// saved returns the overrides of the file, none if there is no file.
func (f *Follower) saved() *Overrides {
	none := new(Overrides)
	if f.File == "" {
		return none
	}
	text, err := os.ReadFile(f.File)
	if errors.Is(err, os.ErrNotExist) {
		return none
	}
	var o *Overrides
	if err == nil {
		o, err = Parse(text)
	}
	if err != nil {
		f.Log.Warn("the saved overrides can't be used", "file", f.File, "error", err)
		return none
	}
	return o
}

// save replaces the file atomically.
func (f *Follower) save(text []byte) {
	if f.File == "" {
		return
	}
	if err := replace(f.File, text); err != nil {
		f.Log.Warn("the overrides can't be saved", "file", f.File, "error", err)
	}
}

func replace(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "*.tmp")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}
