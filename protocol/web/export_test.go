package web

import (
	"net/http"
	"net/url"
)

// newRequest returns a request with only the fields that determine its message type.
func newRequest(contentType, query string) *http.Request {
	return &http.Request{Header: http.Header{"Content-Type": {contentType}}, URL: &url.URL{Path: "/", RawQuery: query}}
}

// NetHTTP2 gives all servers of the process the option [WithNetHTTP2].
func NetHTTP2() { netHTTP2 = true }
