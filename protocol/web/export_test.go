package web

import (
	"net/http"
	"net/url"
)

// newRequest returns a request with only the fields that determine its message type.
func newRequest(contentType, query string) *http.Request {
	return &http.Request{Header: http.Header{"Content-Type": {contentType}}, URL: &url.URL{Path: "/", RawQuery: query}}
}

// OwnHTTP2 makes all servers of the process serve HTTP/2 with internal/http2.
func OwnHTTP2() { ownHTTP2.Store(true) }
