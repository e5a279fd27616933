package standin

import (
	"context"
	"crypto/md5" //nolint:gosec // Nacos compares texts by it
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// configKey identifies a configuration.
type configKey struct{ group, dataID, tenant string }

// configs handles the requests for configurations. The second result is false for other
// requests.
func (s *Server) configs(what, casMD5 string, p params) (answer, bool) {
	at := configKey{p.get("group"), p.get("dataId"), p.get("tenant")}
	switch what {
	case "GET /v1/cs/configs":
		if text, there := s.texts[at]; there {
			return answer{http.StatusOK, text}, true
		}
		return text(http.StatusNotFound, "config data not exist"), true
	case "POST /v1/cs/configs":
		if p.Get("content") == "" {
			return text(http.StatusBadRequest, "Param 'content' is required."), true
		}
		if now, there := s.texts[at]; there && casMD5 != "" && !s.matches(casMD5, p.Get("content"), now) {
			return text(http.StatusInternalServerError, "caused: Cas publish fail, server md5 may have changed.;"), true
		}
		if s.texts == nil {
			s.texts = map[configKey]string{}
		}
		s.texts[at] = p.Get("content")
	case "DELETE /v1/cs/configs":
		delete(s.texts, at)
	default:
		return answer{}, false
	}
	s.news.Broadcast()
	return answer{http.StatusOK, "true"}, true
}

// listen answers a listener when one of its configurations differs from the listener's, or
// when the listener's time is over.
func (s *Server) listen(r *http.Request) answer {
	millis, err := strconv.Atoi(r.Header.Get("Long-Pulling-Timeout"))
	if err != nil {
		return text(http.StatusBadRequest, "invalid probeModify")
	}
	over := time.AfterFunc(time.Duration(max(millis, 10_000))*time.Millisecond, s.wake)
	defer over.Stop()
	defer context.AfterFunc(r.Context(), s.wake)()
	for end := time.Now().Add(time.Duration(millis) * time.Millisecond); ; s.news.Wait() {
		changed := ""
		if !s.Deaf {
			changed = s.different(r.PostForm.Get("Listening-Configs"))
		}
		switch {
		case s.down:
			panic(http.ErrAbortHandler)
		case changed != "" || !time.Now().Before(end) || r.Context().Err() != nil:
			return answer{http.StatusOK, changed}
		}
	}
}

// wake makes all listeners compare again.
func (s *Server) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news.Broadcast()
}

// different returns which of a listener's configurations have changed.
func (s *Server) different(listening string) string {
	var changed strings.Builder
	for line := range strings.SplitSeq(listening, "\x01") {
		fields := append(strings.Split(line, "\x02"), "")
		if len(fields) < 4 {
			continue
		}
		sum := ""
		if text, there := s.texts[configKey{fields[1], fields[0], fields[3]}]; there {
			sum = md5Of(text)
		}
		if sum != fields[2] {
			changed.WriteString(fields[0] + "%02" + fields[1] + "%01")
		}
	}
	return changed.String()
}

// matches reports whether a publish with casMd5 may replace the content now.
func (s *Server) matches(casMD5, content, now string) bool {
	if s.SwapsItself {
		casMD5 = md5Of(content)
	}
	return !s.Swaps && !s.SwapsItself || casMD5 == md5Of(now)
}

func md5Of(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}
