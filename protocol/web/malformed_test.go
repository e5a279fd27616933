package web_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A request that another server may interpret differently is answered with 400, and its
// connection ends.
func TestMalformedRequests(t *testing.T) {
	authorized := func(values ...string) string {
		return post("/Secret", "Authorization: "+strings.Join(values, "\r\nAuthorization: ")+"\r\n"+sized+"\"abc\"")
	}
	body := sized + "\"abc\""
	for name, request := range map[string]string{
		"length and chunks":       post("/Len", "Content-Length: 15\r\n"+chunks+"5\r\n\"abc\"\r\n0\r\n\r\n"),
		"chunks and length":       post("/Len", "transfer-encoding:chunked\r\ncontent-length:15\r\n\r\n5\r\n\"abc\"\r\n0\r\n\r\n"),
		"in the second request":   post("/Len", body) + post("/Len", "Content-Length: 15\r\n"+chunks+"5\r\n\"abc\"\r\n0\r\n\r\n"),
		"chunks over HTTP/1.0":    strings.Replace(post("/Len", "Content-Length: 5\r\n"+chunks+"\"abc\""), "/1.1", "/1.0", 1),
		"two lengths":             post("/Len", "Content-Length: 5\r\n"+body),
		"chunk without a size":    post("/Len", chunks+"z\r\n\"abc\"\r\n0\r\n\r\n"),
		"chunk with a sign":       post("/Len", chunks+"+5\r\n\"abc\"\r\n0\r\n\r\n"),
		"chunk that is longer":    post("/Len", chunks+"4\r\n\"abc\"\r\n0\r\n\r\n"),
		"chunk without CR":        post("/Len", chunks+"5\n\"abc\"\r\n0\r\n\r\n"),
		"trailer without CR":      post("/Len", chunks+"5\r\n\"abc\"\r\n0\r\nA: b\n\r\n"),
		"chunk beyond all bounds": post("/Len", chunks+"fffffffffffffffff\r\n"),
		"two credentials":         authorized("right", "wrong"),
		"two credentials, alike":  authorized("right", "right"),
		"encoded slash":           post("/Text%2fLen", body),
		"encoded slash, large":    post("/Text%2FLen", body),
		"encoded letter":          post("/%54ext/Len", body),
		"encoded dot":             post("/Text%2eLen", body),
		"two slashes":             post("/Text//Len", body),
		"a dot":                   post("/./Text/Len", body),
		"dots":                    post("/Text/../Len", body),
		"dots at the end":         post("/Len/..", body),
		"encoded dots":            post("/Text/%2e%2e/Len", body),
		"NUL":                     post("/Len%00", body),
		"overlong":                post("/Text%c0%afLen", body),
		"backslash":               post("/Text%5cLen", body),
		"URL":                     post("http://a/Text%2fLen", body),
		"expects something else":  post("/Len", "Expect: 200-ok\r\n"+sized),
		"expects two things":      post("/Len", "Expect: 100-continue\r\nExpect: 200-ok\r\n"+sized),
		"OPTIONS of the server":   "OPTIONS * HTTP/1.1\r\nHost: a\r\n" + sized,
		"preface with a header":   "PRI * HTTP/2.0\r\nHost: a\r\n" + sized,
		"preface with chunks":     "PRI * HTTP/2.0\r\n" + chunks + "5\r\nabc",
		"upgrade with a body":     "GET /Len HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + body,
		"upgrade with chunks":     "GET /Len HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + chunks,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHostileTest(t)
				conn := w.raw(request)
				if strings.Contains(name, "second") {
					if status, text, _, err := conn.answer(); status != http.StatusOK || err != nil {
						t.Errorf("the first: %d %s, %v", status, text, err)
					}
				}
				status, text, took, err := conn.answer()
				refused := status == http.StatusBadRequest || status == http.StatusExpectationFailed // net/http's own
				if err != nil || !refused || took != 0 {
					t.Errorf("%d %s after %v, %v", status, text, took, err)
				}
				if took, err := conn.closedAfter(); err != nil || took > time.Second {
					t.Errorf("closed after %v: %v", took, err)
				}
			})
		})
	}
}

// Over HTTP/2 there are no chunks, and no wrong lengths; the rest is the same.
func TestMalformedRequestsHTTP2(t *testing.T) {
	w := newHostileTest(t)
	for _, path := range []string{"/Text%2fLen", "//Len", "/Text%c0%afLen", "/Len%00"} {
		if a := w.do(w.h2, "POST "+path, asJSON, `"abc"`); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.Body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tandem.test/Secret", strings.NewReader(`"abc"`))
	w.must(err)
	req.Header = http.Header{"Content-Type": {asJSON}, "Authorization": {"right", "wrong"}}
	res, err := w.h2.Do(req)
	w.must(err)
	w.must(res.Body.Close())
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("two credentials: %s", res.Status)
	}
}

// Unusual requests that have only one meaning are served.
func TestWellFormedRequests(t *testing.T) {
	for name, request := range map[string]string{
		"chunks":             post("/Len", chunks+"2\r\n\"a\r\n3;ext=1\r\nbc\"\r\n0\r\nA: b\r\n\r\n"),
		"folded":             post("/Len", "X: a\r\n Content-Length: 7\r\n"+sized+"\"abc\""),
		"lines without CR":   strings.ReplaceAll(post("/Len", sized+"\"abc\""), "\r", ""),
		"HTTP/1.0":           strings.Replace(post("/Len", sized+"\"abc\""), "/1.1", "/1.0", 1),
		"encoded and needed": "GET /Len?message=%22a%2fb%22 HTTP/1.1\r\nHost: a\r\n\r\n",
		"URL":                post("http://a/Text/Len", sized+"\"abc\""),
		"expects to go on":   post("/Len", "expect: 100-Continue\r\n"+sized+"\"abc\""),
	} {
		w := newHostileTest(t)
		conn := w.raw(request)
		status, text, _, err := conn.answer()
		if status == http.StatusContinue {
			status, text, _, err = conn.answer()
		}
		if err != nil || status != http.StatusOK || text != "3" {
			t.Errorf("%s: %d %s, %v", name, status, text, err)
		}
		w.must(conn.Close())
	}
}
