package nacos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// loginPause is the least time between two logins, successful or not: two thousand watches
// with a wrong password must not cause two thousand logins.
const loginPause = 5 * time.Second

// login holds the token of one user. It is safe for concurrent use.
type login struct {
	username, password string
	state              chan token // has one token; the goroutine that has received it may log in
}

// token is the outcome of a login.
type token struct {
	value string
	at    time.Time // time of the login; zero if there was none
	until time.Time // when to log in again
	err   error     // Nacos's refusal
}

func newLogin(username, password string) *login {
	l := &login{username: username, password: password, state: make(chan token, 1)}
	l.state <- token{}
	return l
}

// token returns a token, and logs in if that is necessary. It avoids the token stale, which
// was refused, unless the last login was less than loginPause ago.
func (l *login) token(ctx context.Context, s *servers, stale string) (string, error) {
	var t token
	select {
	case t = <-l.state:
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for a login: %w", ctx.Err())
	}
	defer func() { l.state <- t }()
	now := time.Now()
	recent := !t.at.IsZero() && now.Sub(t.at) < loginPause
	switch {
	case recent:
		return t.value, t.err
	case t.value != "" && t.value != stale && now.Before(t.until):
		return t.value, nil
	}
	next, err := l.ask(ctx, s, now)
	if err != nil && !refusedWith(err, http.StatusUnauthorized, http.StatusForbidden) {
		return "", err // of the network or the server: not stored, so that the next call retries
	}
	t = next
	return t.value, err
}

// ask logs in.
func (l *login) ask(ctx context.Context, s *servers, now time.Time) (token, error) {
	q := url.Values{"username": {l.username}, "password": {l.password}}
	body, err := s.ask(ctx, request{method: http.MethodPost, path: "/v1/auth/login", query: q})
	if err != nil {
		err = fmt.Errorf("logging in as %q: %w", l.username, err)
		return token{at: now, err: err}, err
	}
	var answer struct {
		AccessToken string `json:"accessToken"`
		TokenTTL    int64  `json:"tokenTtl"` // seconds
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return token{}, fmt.Errorf("logging in as %q: the response is no JSON: %w", l.username, err)
	}
	if answer.AccessToken == "" {
		return token{}, errors.New("logging in: the response has no accessToken")
	}
	// A tenth early, so that no request arrives with a token that has just expired.
	lives := time.Duration(min(max(answer.TokenTTL, 0), 1<<31)) * time.Second
	return token{value: answer.AccessToken, at: now, until: now.Add(lives * 9 / 10)}, nil
}
