package console

import (
	"bytes"
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed dist
var dist embed.FS

// pages serves the files of the page. Names with a hash never change.
type pages struct{ files fs.FS }

func newPages() (http.Handler, error) {
	files, err := fs.Sub(dist, "dist")
	return pages{files}, err
}

func (p pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	asset := strings.HasPrefix(name, "assets/")
	if !asset && path.Ext(name) == "" { // a screen: the page draws it
		name = "index.html"
	}
	text, err := fs.ReadFile(p.files, name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Cache-Control", "no-cache")
	if asset {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Add("Vary", "Accept-Encoding")
	if packed, err := fs.ReadFile(p.files, name+".br"); err == nil && accepts(r, "br") {
		h.Set("Content-Encoding", "br")
		text = packed
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// accepts reports whether a request accepts an encoding.
func accepts(r *http.Request, encoding string) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, q, _ := strings.Cut(part, ";")
		if strings.TrimSpace(name) == encoding {
			return strings.ReplaceAll(q, " ", "") != "q=0"
		}
	}
	return false
}
