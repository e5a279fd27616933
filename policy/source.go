package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Source provides the text of a policy. It is safe for concurrent use.
type Source interface {
	// Watch passes the text, and then each new one, to update, one call at a time, until ctx
	// ends; then it returns ctx's error. If the text can't be read it passes the error, once,
	// and tries again.
	Watch(ctx context.Context, update func(text []byte, err error)) error
}

// Reporter is implemented by a [Source] that stores which client has applied which version.
type Reporter interface {
	// Report replaces what the client reported before. The source keeps it for
	// [ReportLife], or for as long as it knows that the client lives; the report of a client that
	// has Ended not at all, or for as short as it can.
	Report(ctx context.Context, a Applied) error
}

// Clients repeat their reports, so that the reports of clients that have ended expire.
const (
	ReportEvery = time.Minute
	ReportLife  = 5 * time.Minute
)

// Reports is implemented by a [Source] that returns the reports it has stored.
type Reports interface {
	// Applied returns the last report of each client, by name.
	Applied(ctx context.Context) ([]Applied, error)
}

// Applied is what a client did with a document.
type Applied struct {
	Client  string    `json:"client,omitempty"`  // name of the client
	Version string    `json:"version,omitempty"` // version of the document; "" if it could not be read
	InForce string    `json:"inForce,omitempty"` // the version that the client follows; "" for its options alone
	At      time.Time `json:"at"`
	Error   string    `json:"error,omitempty"` // why it was not applied; the one before stays in force
	Ended   bool      `json:"ended,omitempty"` // the client is closed: [Reports] leaves it out
}

// VersionOf returns the version in the text of a policy, of clients or of servers; if it has none,
// the revision of its Change, such as "r7"; if it has none either, or is not valid, the beginning of
// the text's SHA-256.
func VersionOf(text []byte) string {
	version, change, err := identify(text)
	switch {
	case err != nil:
	case version != "":
		return version
	case change != nil && change.Revision > 0:
		return fmt.Sprintf("r%d", change.Revision)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// File returns the policy in a file, which is checked once a second. Clients report into the
// directory of the same name with ".applied" added, one file each.
func File(path string) Source { return file{path} }

type file struct{ path string }

// look is the time between two checks of the file.
const look = time.Second

func (f file) Watch(ctx context.Context, update func(text []byte, err error)) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	var last []byte
	var failed error
	for {
		text, err := f.read()
		switch {
		case err != nil && (failed == nil || err.Error() != failed.Error()):
			update(nil, err)
		case err == nil && (failed != nil || last == nil || !bytes.Equal(text, last)):
			update(text, nil)
			last = text
		}
		failed = err
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f file) read() ([]byte, error) {
	r, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // it was only read
	var text bytes.Buffer
	if _, err := io.CopyN(&text, r, MaxSize+1); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if text.Len() > MaxSize {
		return nil, fmt.Errorf("policy: %s is larger than %d bytes", f.path, MaxSize)
	}
	return text.Bytes(), nil
}

// maxReports is how many clients may report for one file.
const maxReports = 5000

func (f file) Report(_ context.Context, a Applied) error {
	dir := f.path + ".applied"
	sum := sha256.Sum256([]byte(a.Client)) // names may contain any characters
	path := filepath.Join(dir, hex.EncodeToString(sum[:8])+".json")
	if a.Ended {
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if err := f.forget(dir); err != nil {
		return err
	}
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// forget removes the reports that have expired, and fails if there are too many.
func (f file) forget(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	left := 0
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // another process has removed it
		}
		if time.Since(info.ModTime()) < ReportLife {
			left++
		} else if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if left >= maxReports {
		return fmt.Errorf("policy: %s has %d reports already", dir, left)
	}
	return nil
}

// Applied returns the reports that have not expired.
func (f file) Applied(context.Context) ([]Applied, error) {
	dir := f.path + ".applied"
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	reports := make(map[string][]byte)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) >= ReportLife || filepath.Ext(e.Name()) != ".json" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		reports[e.Name()] = text
	}
	return readReports(reports)
}
