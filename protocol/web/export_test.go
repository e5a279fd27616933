package web

import (
	"net/http"
	"net/url"
)

// newRequest returns a request that has only what says what its messages are.
func newRequest(contentType, query string) *http.Request {
	return &http.Request{Header: http.Header{"Content-Type": {contentType}}, URL: &url.URL{Path: "/", RawQuery: query}}
}
