package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"time"
)

// browser is a headless Chromium, controlled through ChromeDriver with W3C's WebDriver
// protocol (https://www.w3.org/TR/webdriver2/): it simulates a user's clicks and keys.
type browser struct {
	driver  *exec.Cmd
	session string // address of the session
}

// element is WebDriver's reference to an element of a page.
type element string

// elementKey is the member of an element's object with its reference (section 12.1).
const elementKey = "element-6066-11e4-a52e-4f735466cecf"

// startBrowser starts ChromeDriver, and with it a browser that resolves no host but this
// machine.
func (e *env) startBrowser(ctx context.Context) (*browser, error) {
	b := &browser{driver: e.command(ctx, "chromedriver", "--port=0")}
	said := &driverSays{port: make(chan string, 1)}
	b.driver.Stdout = said
	if err := b.driver.Start(); err != nil {
		return nil, err
	}
	err := errors.New("chromedriver did not say where it is")
	select {
	case port := <-said.port:
		err = b.open(ctx, "http://127.0.0.1:"+port)
	case <-time.After(patience):
	}
	if err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	return b, nil
}

// driverSays reads ChromeDriver's port from its output.
type driverSays struct {
	text  []byte
	known bool
	port  chan string
}

var startedOn = regexp.MustCompile(`started successfully on port (\d+)\.`)

func (d *driverSays) Write(p []byte) (int, error) {
	if d.known {
		return len(p), nil
	}
	d.text = append(d.text, p...)
	if m := startedOn.FindSubmatch(d.text); m != nil {
		d.known, d.text = true, nil
		d.port <- string(m[1])
	}
	return len(p), nil
}

// open opens a session, which is a browser with an empty profile.
func (b *browser) open(ctx context.Context, base string) error {
	always := map[string]any{
		"browserName": "chrome", "acceptInsecureCerts": true, // testservice's certificate is self-signed
		"goog:chromeOptions": map[string]any{"args": []string{
			"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
			"--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
		}},
		"goog:loggingPrefs": map[string]any{"browser": "ALL"},
	}
	var opened struct {
		SessionID string `json:"sessionId"`
	}
	b.session = base + "/session"
	err := b.do(ctx, http.MethodPost, "", map[string]any{"capabilities": map[string]any{"alwaysMatch": always}}, &opened)
	b.session += "/" + opened.SessionID
	return err
}

// close ends the browser and its driver, also when ctx has ended.
func (b *browser) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := b.do(ctx, http.MethodDelete, "", nil, nil)
	_ = b.driver.Process.Kill() // the browser has ended already
	_ = b.driver.Wait()         // the error is that it was killed
	return err
}

// do sends a WebDriver command and decodes its value into out, unless that is nil.
func (b *browser) do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if method == http.MethodPost {
		if in == nil {
			in = struct{}{}
		}
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, b.session+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	var answer struct {
		Value json.RawMessage `json:"value"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %.500s", method, path, resp.Status, answer.Value)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, out)
}

// load loads a page.
func (b *browser) load(ctx context.Context, url string) error {
	return b.do(ctx, http.MethodPost, "/url", map[string]string{"url": url}, nil)
}

// find waits for an element that matches a CSS selector.
func (b *browser) find(ctx context.Context, selector string) (element, error) {
	var found map[string]string
	err := until(ctx, func() error {
		return b.do(ctx, http.MethodPost, "/element", map[string]string{"using": "css selector", "value": selector}, &found)
	})
	return element(found[elementKey]), err
}

// click clicks on an element, as a user does: it must be visible.
func (b *browser) click(ctx context.Context, selector string) error {
	el, err := b.find(ctx, selector)
	if err != nil {
		return err
	}
	return b.do(ctx, http.MethodPost, "/element/"+string(el)+"/click", nil, nil)
}

// enter replaces the text in a field by typing.
func (b *browser) enter(ctx context.Context, selector, text string) error {
	el, err := b.find(ctx, selector)
	if err != nil {
		return err
	}
	return errors.Join(
		b.do(ctx, http.MethodPost, "/element/"+string(el)+"/clear", nil, nil),
		b.do(ctx, http.MethodPost, "/element/"+string(el)+"/value", map[string]string{"text": text}, nil))
}

// says waits until a JavaScript expression, as a string, matches the regular expression want.
func (b *browser) says(ctx context.Context, expression, want string) error {
	return until(ctx, func() error {
		var got string
		script := map[string]any{"script": "return String(" + expression + ")", "args": []any{}}
		if err := b.do(ctx, http.MethodPost, "/execute/sync", script, &got); err != nil {
			return err
		}
		if !regexp.MustCompile(want).MatchString(got) {
			return fmt.Errorf("%s is %q, want %q", expression, got, want)
		}
		return nil
	})
}

// complaints returns the browser's log since the last call.
func (b *browser) complaints(ctx context.Context) (list []string, err error) {
	var log []struct {
		Level   string `json:"level"`
		Message string `json:"message"`
	}
	err = b.do(ctx, http.MethodPost, "/se/log", map[string]string{"type": "browser"}, &log)
	for _, l := range log {
		list = append(list, l.Level+" "+l.Message)
	}
	return list, err
}

// patience bounds the time of an action in the browser.
const patience = 10 * time.Second

// until repeats try until it succeeds, at most for patience: scripts of a page run also after
// it has loaded.
func until(ctx context.Context, try func() error) error {
	const pause = 20 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		err := try()
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}
