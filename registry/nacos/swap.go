package nacos

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // Nacos compares texts by it
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/tandem-rpc/tandem/registry/adapter"

	"github.com/tandem-rpc/tandem/registry"
)

// deleted is the content of a configuration that has been deleted by SwapDocument. Nacos
// compares before it publishes, but not before it deletes.
const deleted = "# deleted by tandem"

// textOf returns the document in a configuration, nil if there is none.
func textOf(content []byte) []byte {
	if len(content) == 0 || string(content) == deleted {
		return nil
	}
	return content
}

func md5Of(text []byte) string {
	sum := md5.Sum(text) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// noText is no MD5 of a text. A publish that expects it can only create a configuration.
const noText = "none"

// ReadDocument reads a configuration. In a Nacos cluster it may be some seconds older than
// the last one that was published: each server reads a copy of its own. See
// [registry.DocumentWriter].
func (ds documents) ReadDocument(ctx context.Context, key string) ([]byte, error) {
	d, release, err := ds.connect(key)
	if err != nil {
		return nil, err
	}
	defer release()
	content, err := d.read(ctx)
	text := textOf(content)
	if err == nil {
		err = adapter.CheckDocument(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: reading %s: %w", name, key, err)
	}
	return text, nil
}

// SwapDocument publishes a configuration that Nacos compares with the one before, by its
// casMd5. Nacos has that over HTTP from version 2.3.2 on: with an earlier one, SwapDocument
// writes nothing and fails. To find that out, the first call of it publishes the
// configuration tandem-swap-probe in the document's group.
//
// Nacos can't compare before it deletes. So an empty text publishes "# deleted by tandem",
// which WatchDocument and ReadDocument take for none. A configuration that is deleted
// otherwise, in Nacos's console, in the moment between the read and the publish of one call
// is created again: Nacos can't tell that from a change. See [registry.DocumentWriter].
func (ds documents) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	d, release, err := ds.connect(key)
	if err != nil {
		return err
	}
	defer release()
	if err = adapter.CheckDocument(text); err == nil {
		err = d.swap(ctx, old, text)
	}
	if err != nil {
		return fmt.Errorf("%s: writing %s: %w", name, key, err)
	}
	return nil
}

func (d document) swap(ctx context.Context, old, text []byte) error {
	switch {
	case !utf8.Valid(text):
		return errors.New("the document is not UTF-8, which Nacos would change")
	case string(text) == deleted:
		return fmt.Errorf("the document is %q, which stands for none", deleted)
	}
	if err := d.checkSwaps(ctx); err != nil {
		return err
	}
	content, err := d.read(ctx)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(textOf(content), old):
		return registry.ErrChanged
	case len(text) == 0 && len(old) == 0:
		return nil
	case len(content) == 0:
		// Some versions confirm a creation although another one came first. This one is the
		// same for everybody; after it, the document is an existing one.
		if err := d.publish(ctx, deleted, noText); err != nil && !refusedWith(err, http.StatusInternalServerError) && !errors.Is(err, registry.ErrChanged) {
			return err
		}
		content = []byte(deleted)
	}
	if len(text) == 0 {
		text = []byte(deleted)
	}
	return d.publish(ctx, string(text), md5Of(content))
}

// publish publishes the configuration if there is none, or if the content of the one before
// has this MD5. Otherwise it returns registry.ErrChanged.
func (d document) publish(ctx context.Context, content, casMD5 string) error {
	q := d.query()
	q.Set("content", content)
	body, err := d.servers.do(ctx, request{method: http.MethodPost, path: configPath, query: q, once: true, casMD5: casMD5})
	switch r, refused := errors.AsType[*refusal](err); {
	case refused && strings.Contains(r.text, "server md5 may have changed"):
		return registry.ErrChanged
	case err == nil && strings.TrimSpace(string(body)) != "true":
		err = fmt.Errorf("Nacos did not accept it: %.200q", body) //nolint:staticcheck // a name
	}
	return err
}

// probeID is the configuration that checkSwaps publishes.
const probeID = "tandem-swap-probe"

// errNoSwaps is the error of SwapDocument where Nacos would overwrite whatever there is.
var errNoSwaps = errors.New("this Nacos publishes without comparing (casMd5), so another change could be lost: " +
	"it takes version 2.3.2 or later; with this one, publish in Nacos's console")

// checkSwaps fails if Nacos ignores casMd5, as before version 2.3.0, or compares with the MD5
// of the new text instead, as versions 2.3.0 and 2.3.1. It publishes the same configuration
// twice: the second time must be refused, since it is there. checkSwaps remembers that it was.
func (d document) checkSwaps(ctx context.Context) error {
	if d.servers.swaps.Load() {
		return nil
	}
	d.dataID = probeID
	var err error
	for range 2 {
		err = d.publish(ctx, "# tandem checks with this whether Nacos compares", noText)
		if err != nil && !errors.Is(err, registry.ErrChanged) && !refusedWith(err, http.StatusInternalServerError) {
			return err
		}
	}
	switch {
	case err == nil:
		return errNoSwaps
	case !errors.Is(err, registry.ErrChanged):
		return err
	}
	d.servers.swaps.Store(true)
	return nil
}
