package adapter

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// maxStored is the largest size of a stored list, in bytes.
const maxStored = 64 << 20

// savedLists keeps lists in files of a directory, one per target, for a start while the
// registry does not answer. A file begins with the SHA-256 of its other bytes, so
// that a truncated or changed file is not used.
type savedLists struct{ dir string }

// stored is the content of a file, after the checksum.
type stored struct {
	Target    string            `json:"target"`
	Saved     time.Time         `json:"saved"`
	Instances []tandem.Instance `json:"instances"`
}

// path returns the file of a target. Its name is a hash, because a target may be too
// long for a file name, or have characters that file names can't have.
func (s savedLists) path(target registry.Target) string {
	sum := sha256.Sum256([]byte(target.String()))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".tandem")
}

// save replaces the target's list atomically.
func (s savedLists) save(target registry.Target, list []tandem.Instance, now time.Time) (err error) {
	data, err := json.Marshal(stored{target.String(), now, list})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(append([]byte(hex.EncodeToString(sum[:])+"\n"), data...))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.path(target))
}

// load returns the target's list and when it was saved.
func (s savedLists) load(target registry.Target) ([]tandem.Instance, time.Time, error) {
	f, err := os.Open(s.path(target))
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxStored))
	if err != nil {
		return nil, time.Time{}, err
	}
	const head = 2*sha256.Size + 1
	if len(data) < head {
		return nil, time.Time{}, errors.New("the file was cut off")
	}
	sum := sha256.Sum256(data[head:])
	if string(data[:head-1]) != hex.EncodeToString(sum[:]) {
		return nil, time.Time{}, errors.New("the file's checksum is wrong")
	}
	var content stored
	if err := json.Unmarshal(data[head:], &content); err != nil {
		return nil, time.Time{}, err
	}
	if content.Target != target.String() {
		return nil, time.Time{}, fmt.Errorf("the file is for target %.100q", registry.Redact(content.Target))
	}
	return content.Instances, content.Saved, nil
}
