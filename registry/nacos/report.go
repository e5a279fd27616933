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
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Nacos's configurations do not expire, but its ephemeral instances do. So the reports on a
// document are instances of a service named after it. A report has an address, made from the
// reporter's name, and a port for each piece, from 1 on: Nacos accepts about a thousand
// characters with an instance.

// pieceSize is how many characters of base64 one instance has.
const pieceSize = 400

// maxPieces is the most instances of one report.
const maxPieces = (registry.MaxReport*4/3 + 4 + pieceSize - 1) / pieceSize

// Metadata keys of a piece. The values are not changed by a second URL decoding.
const (
	reporterKey = "tandem-report" // the reporter's name, with the first piece
	sumKey      = "tandem-sum"    // the same for the pieces of one report
	piecesKey   = "tandem-pieces" // number of pieces
	textKey     = "tandem-text"
)

// shownWithin is how long PutReport waits until Nacos shows the report.
const shownWithin = 5 * time.Second

var encoding = base64.RawURLEncoding

// reportsOf returns the service of the reports on a document.
func reportsOf(d document) place {
	return place{namespace: d.namespace, group: d.group, service: d.dataID + ".applied"}
}

// reportAddress returns the address of a reporter's pieces, a unique local address
// (RFC 4193).
func reportAddress(reporter string) netip.Addr {
	sum := sha256.Sum256([]byte(reporter))
	ip := [16]byte(sum[:16])
	ip[0] = 0xfd
	return netip.AddrFrom16(ip)
}

// PutReport registers the report as instances of the service <dataId>.applied. Nacos removes
// them within ten seconds after their life. See [registry.Documents].
func (ds documents) PutReport(ctx context.Context, key, reporter string, report []byte, life time.Duration) error {
	d, release, err := ds.connect(key)
	if err != nil {
		return err
	}
	defer release()
	if err := adapter.CheckReport(reporter, report, life); err != nil {
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
	for i := range slices.Backward(c.pieces) { // the first piece last: readers start from it
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

// cuttings is a report in pieces.
type cuttings struct {
	reporter string
	pieces   []string // at least one, in base64
	sum      string   // checksum of the whole report
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

// describe adds weight and metadata of piece i to the parameters of its instance.
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

// shown waits until Nacos shows the first piece, which takes half a second on an idle server.
// It returns nil if it takes longer than shownWithin, or if Nacos does not support the read,
// as version 3.
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

// Reports reads the instances of the service <dataId>.applied. See [registry.Documents].
func (ds documents) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	d, release, err := ds.connect(key)
	if err != nil {
		return nil, err
	}
	defer release()
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

// gather returns the reports in a list of hosts. It skips incomplete reports, and hosts that
// are no pieces.
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
				h.IP = ip.String() // Nacos may write it in another form
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

// join returns the report that begins with the piece first. whole is false if a piece is
// missing or invalid.
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
