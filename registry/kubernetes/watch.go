package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Bounds of what an API server sends.
const (
	maxSlices = 2000     // of one list
	pageSize  = 100      // slices of one page; Kubernetes puts 100 endpoints into one
	maxPage   = 64 << 20 // bytes
	maxEvent  = 4 << 20  // bytes of one event of a watch; etcd holds objects of 1.5 MiB
)

// Times of lists and watches.
const (
	listTimeout  = time.Minute
	watchTimeout = 5 * time.Minute // of one watch request, and up to twice that
	watchSlack   = time.Minute     // for the server to end it
	shortWatch   = time.Second     // a watch that ends sooner without an event is a failure
	portPause    = 10 * time.Second
)

// Where the slices are, and the label that names the Service of one.
const (
	slicesPath   = "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices"
	serviceLabel = "kubernetes.io/service-name"
)

// errExpired means that the changes since a version are not known any more: the list has to be
// read again.
var errExpired = errors.New("the API server has forgotten the changes since the last list")

// watch follows the slices of one Service. It is used by one session at a time.
type watch struct {
	server *apiServer
	place  place

	slices    map[string]*endpointSlice // by name
	version   string                    // the resourceVersion of slices; "" if the list must be read
	notBefore time.Time                 // when the next request may be sent
}

// session is the Session of an [adapter.Follower]. After a failure the next session goes on with
// the version that it has, so that an API server that was restarted need not send every client a
// whole list.
func (w *watch) session(ctx context.Context, m *adapter.Mirror) error {
	if err := wait(ctx, time.Until(w.notBefore)); err != nil {
		return err
	}
	err := w.run(ctx, m)
	refusal, refused := errors.AsType[*statusError](err)
	switch {
	case ctx.Err() != nil: // it is time to read the whole list
		w.version = ""
	case refused:
		w.notBefore = time.Now().Add(refusal.retry)
		if !refusal.temporary() {
			w.version = ""
		}
	case isPortError(err):
		w.notBefore = time.Now().Add(portPause)
	}
	return err
}

// temporary reports whether a version that was refused so may work later.
func (e *statusError) temporary() bool {
	switch e.code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		return true
	}
	return false
}

func isPortError(err error) bool {
	_, is := errors.AsType[*portError](err)
	return is
}

func (w *watch) run(ctx context.Context, m *adapter.Mirror) error {
	for expired := 0; ; {
		if w.version == "" {
			if err := w.list(ctx); err != nil {
				return err
			}
			if err := w.show(m); err != nil {
				return err
			}
		}
		events, err := w.follow(ctx, m)
		switch {
		case errors.Is(err, errExpired):
			w.version = ""
			if expired++; expired > 1 && events == 0 {
				return err // at once after a list: pause
			}
		case err != nil:
			return err
		}
	}
}

// show makes the slices the list.
func (w *watch) show(m *adapter.Mirror) error {
	list, err := w.place.instances(w.slices, m.Refuse)
	if err != nil {
		return err
	}
	m.Replace(list)
	return nil
}

// query returns the parameters that choose the slices of a Service.
func (at place) query() (path string, q url.Values) {
	return fmt.Sprintf(slicesPath, at.namespace), url.Values{"labelSelector": {serviceLabel + "=" + at.service}}
}

// list reads all slices.
func (w *watch) list(ctx context.Context) error {
	path, q := w.place.query()
	list, version, err := w.server.list(ctx, path, q)
	if err != nil {
		return err
	}
	w.slices, w.version = list, version
	return nil
}

// list reads all slices that a query chooses, and their version. Without a resourceVersion in the
// request the API server answers with what is true now, so a list is never older than one that
// was read before.
func (s *apiServer) list(ctx context.Context, path string, q url.Values) (map[string]*endpointSlice, string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	q.Set("limit", strconv.Itoa(pageSize))
	all := map[string]*endpointSlice{}
	for {
		page, err := s.page(ctx, path, q)
		if err != nil {
			if refusal, refused := errors.AsType[*statusError](err); refused && refusal.code == http.StatusGone {
				return nil, "", errExpired // the next pages are not known any more
			}
			return nil, "", err
		}
		for i := range page.Items {
			all[page.Items[i].Metadata.Name] = &page.Items[i]
		}
		switch {
		case len(all) > maxSlices:
			return nil, "", fmt.Errorf("there are more than %d EndpointSlices", maxSlices)
		case page.Metadata.Continue == "" && page.Metadata.ResourceVersion == "":
			return nil, "", errors.New("the API server's list has no resourceVersion")
		case page.Metadata.Continue == "":
			return all, page.Metadata.ResourceVersion, nil
		case len(page.Items) == 0:
			return nil, "", errors.New("the API server's list has an empty page before its end")
		}
		q.Set("continue", page.Metadata.Continue)
	}
}

// slicePage is one page of a list.
type slicePage struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []endpointSlice `json:"items"`
}

func (s *apiServer) page(ctx context.Context, path string, q url.Values) (*slicePage, error) {
	body, err := s.get(ctx, path, q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	limited := &io.LimitedReader{R: body, N: maxPage}
	page := new(slicePage)
	if err := json.NewDecoder(limited).Decode(page); err != nil {
		if limited.N <= 0 {
			err = fmt.Errorf("it has more than %d bytes", maxPage)
		}
		return nil, fmt.Errorf("the API server's list: %w", err)
	}
	return page, nil
}

// follow sends one watch request and applies its events until it ends, and returns how many there
// were. It returns errExpired if the version is too old.
func (w *watch) follow(ctx context.Context, m *adapter.Mirror) (events int, err error) {
	timeout := watchTimeout + rand.N(watchTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout+watchSlack)
	defer cancel()
	path, q := w.place.query()
	q.Set("watch", "1")
	q.Set("resourceVersion", w.version)
	q.Set("allowWatchBookmarks", "true")
	q.Set("timeoutSeconds", strconv.Itoa(int(timeout/time.Second)))
	start := time.Now()
	body, err := w.server.get(ctx, path, q)
	if refusal, refused := errors.AsType[*statusError](err); refused && refusal.code == http.StatusGone {
		return 0, errExpired
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }()
	if err := w.show(m); err != nil { // the watch stands: what is listed is true
		return 0, err
	}
	events, err = w.apply(bufio.NewReaderSize(body, 64<<10), m)
	if errors.Is(err, io.EOF) {
		if err = nil; events == 0 && time.Since(start) < shortWatch {
			err = errors.New("the API server ended the watch at once")
		}
	}
	return events, err
}

// apply applies events until the reader ends, which is io.EOF.
func (w *watch) apply(r *bufio.Reader, m *adapter.Mirror) (events int, err error) {
	changed := false
	for {
		if changed && r.Buffered() == 0 { // of events that come together only the last is shown
			if err := w.show(m); err != nil {
				return events, err
			}
			changed = false
		}
		line, err := readLine(r, maxEvent)
		if err != nil {
			return events, err
		}
		if len(line) == 0 {
			continue
		}
		change, err := w.take(line)
		if err != nil {
			return events, err
		}
		events++
		changed = changed || change
	}
}

// take applies one event and reports whether it may have changed the list.
func (w *watch) take(line []byte) (changed bool, err error) {
	var event struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return false, fmt.Errorf("an event of the watch: %w", err)
	}
	if event.Type == "ERROR" {
		return false, errorOf(event.Object)
	}
	s := new(endpointSlice)
	if err := json.Unmarshal(event.Object, s); err != nil {
		return false, fmt.Errorf("an event of the watch: %w", err)
	}
	if s.Metadata.ResourceVersion == "" {
		return false, errors.New("an event of the watch has no resourceVersion")
	}
	switch event.Type {
	case "BOOKMARK":
	case "ADDED", "MODIFIED":
		if len(w.slices) >= maxSlices && w.slices[s.Metadata.Name] == nil {
			return false, fmt.Errorf("there are more than %d EndpointSlices", maxSlices)
		}
		w.slices[s.Metadata.Name] = s
		changed = true
	case "DELETED":
		delete(w.slices, s.Metadata.Name)
		changed = true
	default:
		return false, fmt.Errorf("an event of the watch has the unknown type %.20q", event.Type)
	}
	w.version = s.Metadata.ResourceVersion
	return changed, nil
}

// errorOf returns the error of an event of the type ERROR.
func errorOf(object []byte) error {
	var s status
	if err := json.Unmarshal(object, &s); err != nil {
		return fmt.Errorf("an event of the watch: %w", err)
	}
	if s.Code == http.StatusGone {
		return errExpired
	}
	return s.asError(s.Code)
}

// readLine returns the next line without its end, which is valid until the next read of r. It
// fails for one of more than limit bytes, and with io.ErrUnexpectedEOF for one that is cut off.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == nil {
		return line[:len(line)-1], nil
	}
	long := append([]byte(nil), line...)
	for errors.Is(err, bufio.ErrBufferFull) && len(long) <= limit {
		line, err = r.ReadSlice('\n')
		long = append(long, line...)
	}
	switch {
	case len(long) > limit:
		return nil, fmt.Errorf("an event of the watch has more than %d bytes", limit)
	case err == nil:
		return long[:len(long)-1], nil
	case errors.Is(err, io.EOF) && len(long) > 0:
		return nil, io.ErrUnexpectedEOF
	}
	return nil, err
}

// wait waits for d. It returns ctx's error if ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
