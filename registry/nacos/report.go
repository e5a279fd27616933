package nacos

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// Nacos's configurations have no life that ends, its ephemeral instances do. So the
// reports beside a document are instances of a service beside it. A report has an
// address of its own, made from the reporter's name, and a port for each piece, from 1 on:
// Nacos takes about a thousand characters with an instance.

// pieceSize is how many characters of base64 one instance carries.
const pieceSize = 400

// maxPieces is how many instances a report can be.
const maxPieces = (registry.MaxReport*4/3 + 4 + pieceSize - 1) / pieceSize

// Metadata of a piece. Its values are base64, which no decoding changes.
const (
	reporterKey = "tandem-report" // the reporter's name, with the first piece
	sumKey      = "tandem-sum"    // which pieces belong together
	piecesKey   = "tandem-pieces" // how many there are
	textKey     = "tandem-text"
)

// shownWithin is how long PutReport waits until Nacos shows what it has taken.
const shownWithin = 5 * time.Second

var encoding = base64.RawURLEncoding

// reportsOf is the place of the reports beside a document.
func reportsOf(d document) place {
	return place{namespace: d.namespace, group: d.group, service: d.dataID + ".applied"}
}

// reportAddress is where a reporter's pieces are: an address of those that lead nowhere
// outside (RFC 4193).
func reportAddress(reporter string) netip.Addr {
	sum := sha256.Sum256([]byte(reporter))
	ip := [16]byte(sum[:16])
	ip[0] = 0xfd
	return netip.AddrFrom16(ip)
}

// PutReport registers instances of a service that is named as the document, with
// .applied after it. Nacos takes them off within ten seconds after their life. See
// [registry.Documents].
func (r *Registry) PutReport(ctx context.Context, key, reporter string, report []byte, life time.Duration) error {
	d, err := r.document(key)
	if err != nil {
		return err
	}
	if err := registry.CheckReport(reporter, report, life); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*shownWithin)
	defer cancel()
	if err := d.putReport(ctx, reporter, report, life); err != nil {
		return fmt.Errorf("%s: reporting beside %s: %w", name, key, err)
	}
	return nil
}

func (d document) putReport(ctx context.Context, reporter string, report []byte, life time.Duration) error {
	at, first := reportsOf(d), address{reportAddress(reporter).String(), 1}
	e := entry{servers: d.servers, place: at}
	if there, err := e.look(ctx, first); err != nil {
		return err
	} else if there == nil {
		all, err := d.reports(ctx)
		if err != nil {
			return err
		}
		if _, listed := all[reporter]; !listed && len(all) >= d.mostReports {
			return registry.ErrReports
		}
	}
	c := cut(reporter, report, life)
	for i := range slices.Backward(c.pieces) { // the first one last: it says which others belong to it
		q := at.of(address{first.host, i + 1})
		if err := c.describe(q, i); err != nil {
			return err
		}
		if _, err := d.servers.call(ctx, http.MethodPost, instancePath, q); err != nil {
			return err
		}
	}
	return d.shown(ctx, at.of(first), c.sum)
}

// cuttings are a report in pieces.
type cuttings struct {
	reporter string
	pieces   []string // one at least, in base64
	sum      string   // of the whole
	life     time.Duration
}

func cut(reporter string, report []byte, life time.Duration) *cuttings {
	sum := sha256.Sum256(report)
	c := &cuttings{reporter: reporter, sum: hex.EncodeToString(sum[:8]), life: life}
	text := encoding.EncodeToString(report)
	for len(text) > pieceSize {
		c.pieces, text = append(c.pieces, text[:pieceSize]), text[pieceSize:]
	}
	c.pieces = append(c.pieces, text)
	return c
}

// describe adds what a piece says to the parameters of its instance.
func (c *cuttings) describe(q url.Values, i int) error {
	millis := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	metadata := map[string]string{
		sumKey: c.sum, piecesKey: strconv.Itoa(len(c.pieces)), textKey: c.pieces[i],
		"preserved.heart.beat.interval": millis(c.life / 3),
		"preserved.heart.beat.timeout":  millis(c.life),
		"preserved.ip.delete.timeout":   millis(c.life),
	}
	if i == 0 {
		metadata[reporterKey] = encoding.EncodeToString([]byte(c.reporter))
	}
	text, err := json.Marshal(metadata)
	q.Set("weight", "1")
	q.Set("metadata", string(text))
	return err
}

// shown waits until Nacos shows a piece that it has taken, which is half a second
// when it has nothing else to do. It does not fail when that takes long, nor when Nacos
// does not tell, as version 3.
func (d document) shown(ctx context.Context, at url.Values, sum string) error {
	for end := time.Now().Add(shownWithin); time.Now().Before(end); {
		var there host
		body, err := d.servers.call(ctx, http.MethodGet, instancePath, at)
		switch {
		case refusedWith(err, http.StatusGone):
			return nil
		case refusedWith(err, http.StatusNotFound):
		case err != nil:
			return err
		case json.Unmarshal(body, &there) == nil && there.Metadata[sumKey] == sum:
			return nil
		}
		if err := rest(ctx, restPause); err != nil {
			return err
		}
	}
	return nil
}

// Reports reads the instances of the service beside a document. See
// [registry.Documents].
func (r *Registry) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	d, err := r.document(key)
	if err != nil {
		return nil, err
	}
	reports, err := d.reports(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: reading the reports beside %s: %w", name, key, err)
	}
	return reports, nil
}

func (d document) reports(ctx context.Context) (map[string][]byte, error) {
	q := reportsOf(d).query()
	q.Set("healthyOnly", "true")
	body, err := d.servers.call(ctx, http.MethodGet, instancePath+"/list", q)
	if err != nil {
		return nil, err
	}
	hosts, err := hostsOf(body)
	if err != nil {
		return nil, err
	}
	return gather(hosts)
}

// gather puts the pieces of reports together. What is not complete, or is no piece, is
// left out.
func gather(hosts json.RawMessage) (map[string][]byte, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(hosts, &list); err != nil {
		return nil, fmt.Errorf("the hosts are no list: %w", err)
	}
	pieces := make(map[address]host, len(list))
	for _, data := range list {
		var h host
		if err := json.Unmarshal(data, &h); err == nil {
			if ip, err := netip.ParseAddr(h.IP); err == nil {
				h.IP = ip.String() // however Nacos writes it
			}
			pieces[h.address()] = h
		}
	}
	reports := make(map[string][]byte)
	for at, h := range pieces {
		if at.port != 1 || len(reports) >= registry.MaxReports {
			continue
		}
		reporter, err := encoding.DecodeString(h.Metadata[reporterKey])
		if err != nil || reportAddress(string(reporter)).String() != at.host {
			continue
		}
		if report, whole := join(pieces, h); whole {
			reports[string(reporter)] = report
		}
	}
	return reports, nil
}

// join returns the report that begins with a piece.
func join(pieces map[address]host, first host) (report []byte, whole bool) {
	n, err := strconv.Atoi(first.Metadata[piecesKey])
	if err != nil || n < 1 || n > maxPieces {
		return nil, false
	}
	var text strings.Builder
	for i := range n {
		h, there := pieces[address{first.IP, i + 1}]
		if !there || h.Metadata[sumKey] != first.Metadata[sumKey] {
			return nil, false
		}
		text.WriteString(h.Metadata[textKey])
	}
	report, err = encoding.DecodeString(text.String())
	return report, err == nil && len(report) <= registry.MaxReport
}
