package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Documents is implemented by registries that store documents: small texts under keys
// of their own, such as the policies of clients. Next to each document its readers put
// reports. It is safe for concurrent use.
type Documents interface {
	// WatchDocument delivers the document, and then every new version, to update, one
	// call at a time, until ctx ends; then it returns ctx's error. While the document
	// can't be read, does not exist or is empty, it delivers the reason once, as err,
	// and keeps trying. It returns early only for a key that can never work.
	WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error
	// PutReport puts a report next to the document and replaces the report of the same
	// name. The registry removes it after its life, or when the process that put it is
	// known to have ended. The name has 1 to 256 bytes, the report at most [MaxReport],
	// and its life is 1 s to 24 h. A document has at most [MaxReports] reports.
	PutReport(ctx context.Context, key, name string, report []byte, life time.Duration) error
	// Reports returns the reports of the document by name.
	Reports(ctx context.Context, key string) (map[string][]byte, error)
}

// DocumentWriter is implemented by registries that can also write documents. It is safe
// for concurrent use, also by several processes. To change a document, read it, make the
// new text of it, and swap; on [ErrChanged] begin again.
type DocumentWriter interface {
	// ReadDocument returns the document as the registry has confirmed it last, nil if
	// there is none.
	ReadDocument(ctx context.Context, key string) ([]byte, error)
	// SwapDocument stores text if the document is exactly old, in one step that no other
	// writer can come between. An empty old means that there is no document; an empty
	// text deletes the document. If the document is another one, SwapDocument stores
	// nothing and returns [ErrChanged], possibly wrapped. After any other error text may
	// have been stored all the same.
	SwapDocument(ctx context.Context, key string, old, text []byte) error
}

// DocumentFinder is implemented by a [Resolver] whose registry stores documents.
type DocumentFinder interface {
	// DocumentsOf returns the documents of the registry that a target names, and the key
	// of the document with the overrides of the target's list (see package override). That document is
	// beside the list, and not in it. The key is the same for all targets that name the
	// same list, whatever their options. d is a [DocumentWriter], too, and has nothing to
	// close. DocumentsOf sends no request; it fails for a target that can never work.
	DocumentsOf(target Target) (d Documents, key string, err error)
}

// overridesPath is the beginning of the keys that OverridesKey returns. It is one element,
// so that it is not below a list whose path is /tandem, where some registries would look.
const overridesPath = "/tandem-overrides/"

// OverridesKey returns the key of the document with the overrides of a list, for
// registries in which lists and documents have paths, such as /shop/Cart. It is
// /tandem-overrides, followed by the path of the list, with or without its first slash. An
// element "applied" gets an underscore in front, because the reports on a document may be
// in a directory of that name below it. Different paths have different keys.
func OverridesKey(path string) string {
	elements := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, e := range elements {
		if strings.TrimLeft(e, "_") == "applied" {
			elements[i] = "_" + e
		}
	}
	return overridesPath + strings.Join(elements, "/")
}

// Bounds of documents and reports.
const (
	MaxDocument = 1 << 20  // bytes; a registry may have a lower limit
	MaxReport   = 16 << 10 // bytes
	MaxReports  = 5000     // reports of one document
)

// ErrNoDocument is the error that WatchDocument delivers while there is no document.
var ErrNoDocument = errors.New("there is no such document")

// ErrChanged is the error of SwapDocument when the document is not the expected one.
var ErrChanged = errors.New("the document has been changed meanwhile")

// ErrReports is the error of PutReport when the document has [MaxReports] reports already.
var ErrReports = fmt.Errorf("there are %d reports beside the document already", MaxReports)
