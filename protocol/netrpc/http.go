package netrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// maxHead is the limit of a CONNECT request, in bytes.
const maxHead = 16 << 10

// handshake answers an HTTP CONNECT and returns its header as metadata; clients may send
// credentials in it.
func (p *protocol) handshake(c *server.Conn, br *bufio.Reader) (tandem.Metadata, error) {
	c.Midway(true)
	head, err := readHead(br)
	if err != nil {
		return nil, err
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading a CONNECT: %w", err), refuse(c, http.StatusBadRequest))
	}
	if why := objection(req); why != "" {
		return nil, errors.Join(fmt.Errorf("malformed CONNECT: %s", why), refuse(c, http.StatusBadRequest))
	}
	if !slices.Contains(p.paths, req.URL.Path) {
		return nil, errors.Join(fmt.Errorf("CONNECT to %.100q, which is not served", req.URL.Path), refuse(c, http.StatusNotFound))
	}
	md := tandem.Metadata{}
	for name, values := range req.Header {
		md[strings.ToLower(name)] = values
	}
	// Clients check the text after the version.
	_, err = c.Write([]byte("HTTP/1.0 200 Connected to Go RPC\n\n"))
	return md, err
}

// objection returns why a CONNECT is refused that a proxy before this server may interpret
// differently, since the first request may follow it directly; "" if it is not refused.
func objection(r *http.Request) string {
	switch {
	case len(r.Header["Authorization"]) > 1:
		return "it has more than one Authorization"
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.Header.Get("Content-Length") != "":
		return "it has a body"
	case r.URL.EscapedPath() != r.URL.Path:
		return "its path encodes characters"
	}
	return ""
}

// readHead reads up to and including an empty line.
func readHead(br *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		line, err := br.ReadSlice('\n')
		head = append(head, line...)
		switch {
		case len(head) > maxHead || errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("the head of a CONNECT has more than %d bytes", maxHead)
		case err != nil:
			return nil, unexpected(err)
		case len(bytes.TrimRight(line, "\r\n")) == 0:
			return head, nil
		}
	}
}

func refuse(c *server.Conn, code int) error {
	_, err := fmt.Fprintf(c, "HTTP/1.0 %d %s\r\nContent-Length: 0\r\n\r\n", code, http.StatusText(code))
	return err
}
