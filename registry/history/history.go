// Package history (experimental) changes documents of a registry, such as policies, one version
// at a time, and keeps the versions before, so that a change can be looked up and undone.
package history

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

// Bounds of what is kept of a document. The oldest versions go first.
const (
	MaxVersions = 100       // versions
	MaxKept     = 384 << 10 // bytes of all versions together, which every registry can store in one document
)

// attempts is how often an edit is tried when other writers come between.
const attempts = 16

// ErrNoVersion is the error for a revision that is not kept.
var ErrNoVersion = errors.New("this version is not kept")

// Version is one version of a document.
type Version struct {
	policy.Change

	Text    string `json:"text,omitempty"`    // the document; "" if the change deleted it
	Omitted string `json:"omitted,omitempty"` // the SHA-256 of the text, in hex, if that was too large to be kept
}

// Store is a document whose versions are kept, in a second document whose key is that of the
// first with ".history" added. It is safe for concurrent use, by several processes, too.
type Store struct {
	Documents registry.DocumentWriter
	Key       string
}

// Read returns the version that is in force; a zero Version if there never was a document.
func (s Store) Read(ctx context.Context) (Version, error) {
	now, _, err := s.read(ctx)
	return now, err
}

// Versions returns the versions that are kept, the oldest first. The last one is in force.
func (s Store) Versions(ctx context.Context) ([]Version, error) {
	now, kept, err := s.read(ctx)
	if err == nil && now.Revision > 0 {
		kept = with(kept, now)
	}
	return kept, err
}

// Version returns one of the versions that are kept, or [ErrNoVersion].
func (s Store) Version(ctx context.Context, revision int) (Version, error) {
	kept, err := s.Versions(ctx)
	if err != nil {
		return Version{}, err
	}
	for _, v := range kept {
		if v.Revision == revision && v.Omitted == "" {
			return v, nil
		}
	}
	return Version{}, fmt.Errorf("revision %d of %s: %w", revision, s.Key, ErrNoVersion)
}

// Edit changes the document. edit gets the version in force and the Change to be made, with its
// revision and time filled in, and returns the new text, empty to delete the document; an error
// of edit ends Edit. If another writer comes between, edit is called again with that writer's
// text. Edit returns the new version. If that is in force, but could not be recorded, it
// returns the version and an error; the next Edit records it.
func (s Store) Edit(ctx context.Context, c policy.Change, edit func(now Version, c policy.Change) ([]byte, error)) (Version, error) {
	if c.By == "" || len(c.By) > policy.MaxReason || len(c.Why) > policy.MaxReason {
		return Version{}, fmt.Errorf("change of %s: want who makes it and at most %d bytes why", s.Key, policy.MaxReason)
	}
	for range attempts {
		now, kept, err := s.settled(ctx)
		if err != nil {
			return Version{}, err
		}
		c.Revision, c.At = max(now.Revision, last(kept).Revision)+1, time.Now().UTC().Truncate(time.Millisecond)
		text, err := edit(now, c)
		if err != nil {
			return Version{}, err
		}
		err = s.Documents.SwapDocument(ctx, s.Key, []byte(now.Text), text)
		if errors.Is(err, registry.ErrChanged) {
			continue
		}
		if err != nil {
			return Version{}, fmt.Errorf("%w; the change may be in force all the same: look at the history", err)
		}
		made := Version{Change: c, Text: string(text)}
		if err := s.record(ctx, now, made); err != nil {
			return made, fmt.Errorf("revision %d of %s is in force, but not in the history yet: %w", made.Revision, s.Key, err)
		}
		return made, nil
	}
	return Version{}, fmt.Errorf("change of %s: other writers came between %d times: %w", s.Key, attempts, registry.ErrChanged)
}

// Restore makes the text of an earlier version the document again, as a change of its own.
// with is called with that text and the Change, and returns the text to store, as a document may
// hold its Change; nil stores the text as it is.
func (s Store) Restore(ctx context.Context, revision int, c policy.Change, with func(text string, c policy.Change) ([]byte, error)) (Version, error) {
	old, err := s.Version(ctx, revision)
	if err != nil {
		return Version{}, err
	}
	return s.Edit(ctx, c, func(_ Version, c policy.Change) ([]byte, error) {
		if with == nil || old.Text == "" {
			return []byte(old.Text), nil
		}
		return with(old.Text, c)
	})
}

// patience is how long an edit waits for another writer to record the version in force. Whoever
// has not done so by then has failed, or has written the document by other means.
const patience = 300 * time.Millisecond

// settled is read, once the version in force is recorded. The number of a version that is not
// recorded is a guess: if the one before it was not recorded, either, it is too small, and the next
// version would get a number that is taken.
func (s Store) settled(ctx context.Context) (now Version, kept []Version, err error) {
	began := time.Now()
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		now, kept, err = s.read(ctx)
		if err != nil || now.Revision == last(kept).Revision || time.Since(began) > patience {
			return now, kept, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return now, nil, ctx.Err()
		}
	}
}

// read returns the version in force and the recorded ones.
func (s Store) read(ctx context.Context) (now Version, kept []Version, err error) {
	_, kept, err = s.recorded(ctx)
	if err != nil {
		return now, nil, err
	}
	text, err := s.Documents.ReadDocument(ctx, s.Key)
	if err != nil {
		return now, nil, err
	}
	return identify(string(text), kept), kept, nil
}

// identify returns the version that a text is: the last one that is recorded, or the next one. The
// next one has the text's own Change if that has its number; else it was written by other means.
func identify(text string, kept []Version) Version {
	before := last(kept)
	if before.Omitted == "" && before.Text == text || before.Omitted != "" && before.Omitted == sum(text) {
		before.Text, before.Omitted = text, ""
		return before
	}
	now := Version{Text: text}
	now.Revision = before.Revision + 1
	var own struct {
		Change policy.Change `json:"change"`
	}
	if json.Unmarshal([]byte(text), &own) == nil && (own.Change.Revision == now.Revision || len(kept) == 0 && own.Change.Revision > 0 && own.Change.Revision < maxRevision) {
		now.Change = own.Change
	}
	return now
}

// maxRevision bounds what is believed of a document whose history is lost.
const maxRevision = 1 << 30

func sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func last(kept []Version) Version {
	if len(kept) == 0 {
		return Version{}
	}
	return kept[len(kept)-1]
}

// historyKey returns the key of the document that holds the versions.
func (s Store) historyKey() string { return s.Key + ".history" }

// recorded returns the versions that are recorded, and the text of their document.
func (s Store) recorded(ctx context.Context) (text []byte, kept []Version, err error) {
	text, err = s.Documents.ReadDocument(ctx, s.historyKey())
	if err != nil || len(text) == 0 {
		return text, nil, err
	}
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, nil, fmt.Errorf("%s: the history can't be read: %w; delete the document to begin a new one", s.historyKey(), err)
	}
	return text, kept, nil
}

// record adds versions to the history.
func (s Store) record(ctx context.Context, versions ...Version) error {
	for range attempts {
		old, kept, err := s.recorded(ctx)
		if err != nil {
			return err
		}
		for _, v := range versions {
			if v.Revision > 0 {
				kept = with(kept, v)
			}
		}
		text, err := bounded(kept)
		if err != nil {
			return err
		}
		if err = s.Documents.SwapDocument(ctx, s.historyKey(), old, text); !errors.Is(err, registry.ErrChanged) {
			return err
		}
	}
	return registry.ErrChanged
}

// with returns the versions with another one among them, by revision.
func with(kept []Version, v Version) []Version {
	i, there := slices.BinarySearchFunc(kept, v.Revision, func(k Version, revision int) int { return cmp.Compare(k.Revision, revision) })
	kept = slices.Clone(kept)
	switch {
	case !there:
		return slices.Insert(kept, i, v)
	case kept[i].Omitted != "":
		kept[i] = v
	}
	return kept
}

// bounded returns the text of the versions, without the oldest if they are too many or too
// large.
func bounded(kept []Version) ([]byte, error) {
	size, first := 0, len(kept)
	for first > 0 && len(kept)-first < MaxVersions && size+len(kept[first-1].Text) <= MaxKept {
		first--
		size += len(kept[first].Text)
	}
	for ; ; first++ {
		if first == len(kept) { // not even the last one fits
			v := kept[len(kept)-1]
			return json.Marshal([]Version{{Change: v.Change, Omitted: sum(v.Text)}})
		}
		text, err := json.Marshal(kept[first:])
		if err != nil || len(text) <= MaxKept { // else what JSON adds is too much
			return text, err
		}
	}
}
