package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Extensions of the files of an instance, after its escaped ID.
const (
	jsonExt = ".json"
	lockExt = ".lock"
	tempExt = ".tmp" // the next .json; written only by the holder of the lock
)

// maxFile is the largest size of a .json, in bytes, without its newline.
const maxFile = adapter.MaxEntry

// maxPlain is the longest file name without extension, in bytes; the end of a longer
// escaped ID is replaced by a hash. File systems allow 255 bytes.
const maxPlain = 180

// fileName returns the file name, without extension, for an ID: lower-case
// letters, digits, '-', '_' and inner dots stand for themselves, other bytes
// are %xx. So no two IDs share a name, not even where the file system ignores
// case. The end of a long name is replaced by '~' and the ID's SHA-256.
func fileName(id string) string {
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	name := b.String()
	if len(name) <= maxPlain {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	return name[:maxPlain-65] + "~" + hex.EncodeToString(sum[:])
}

// encode returns the contents of an instance's file. It fails as [adapter.Encode] does.
func encode(in tandem.Instance) ([]byte, error) {
	data, err := adapter.Encode(in)
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// decode parses the contents of the file with that name, without extension.
// Unknown fields are ignored, because later versions may write more fields.
func decode(name string, data []byte) (tandem.Instance, error) {
	in, err := adapter.Decode(bytes.TrimSuffix(data, []byte("\n")))
	if err != nil {
		return in, err
	}
	if want := fileName(in.ID); want != name {
		return in, fmt.Errorf("instance %q belongs into %s", in.ID, want+jsonExt)
	}
	return in, nil
}

// load reads and parses name+jsonExt.
func load(name string) (tandem.Instance, error) {
	data, err := readFile(name + jsonExt)
	if err != nil {
		return tandem.Instance{}, err
	}
	return decode(filepath.Base(name), data)
}

// errTooLarge is returned for a .json that is larger than maxFile and a newline.
var errTooLarge = errors.New("the file is too large")

// readFile reads a file of up to maxFile bytes and a newline.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	var data bytes.Buffer
	if _, err := io.CopyN(&data, f, maxFile+2); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if data.Len() > maxFile+1 {
		return nil, errTooLarge
	}
	return data.Bytes(), nil
}
