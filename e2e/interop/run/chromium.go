package main

import (
	"context"
	"errors"
	"fmt"
)

func installChromium(ctx context.Context, e *env) error {
	return e.packages(ctx, "chromedriver", "chromium", "chromium-driver")
}

// visit is a user's action on the page for calling methods, and a check of its effect.
type visit struct {
	name string
	do   func(ctx context.Context, b *browser, url string) error
}

// visits are made on one page, in this order, after it was loaded.
var visits = []visit{
	{"the methods are listed", func(ctx context.Context, b *browser, _ string) error {
		return b.says(ctx, `[...document.querySelectorAll("#methods button")].map((m) => m.dataset.path)`, `/Arith/Div,/Arith/Mul`)
	}},
	{"a method is chosen", func(ctx context.Context, b *browser, _ string) error {
		return errors.Join(b.click(ctx, `button[data-path="/Arith/Mul"]`),
			b.says(ctx, `document.getElementById("name").textContent`, `^POST /Arith/Mul$`),
			b.says(ctx, `JSON.stringify(JSON.parse(document.getElementById("request").value))`, `^{"a":0,"b":0}$`))
	}},
	{"Call is pressed", func(ctx context.Context, b *browser, _ string) error {
		return errors.Join(b.enter(ctx, "#request", `{"a":6,"b":7}`), b.call(ctx, "^200 ", "^42$"),
			b.says(ctx, `document.getElementById("curl").textContent`, `^curl .*{"a":6,"b":7}.*/Arith/Mul'$`))
	}},
	{"nothing was complained about", func(ctx context.Context, b *browser, _ string) error {
		list, err := b.complaints(ctx)
		if len(list) > 0 {
			return fmt.Errorf("%q", list)
		}
		return err
	}},
	{"a header is added", func(ctx context.Context, b *browser, _ string) error {
		return errors.Join(b.click(ctx, "summary"), b.enter(ctx, "#header", "X-Number: 1\nX-Text: a: b"),
			b.call(ctx, "^200 ", "^42$"), b.says(ctx, `document.getElementById("curl").textContent`, `'x-number: 1' -H 'x-text: a: b'`))
	}},
	{"an error of the method", func(ctx context.Context, b *browser, _ string) error {
		return errors.Join(b.click(ctx, `button[data-path="/Arith/Div"]`), b.enter(ctx, "#request", `[7,0]`),
			b.call(ctx, "^400 ", `"message": "division by zero"`), b.says(ctx, `document.getElementById("status").className`, "^failed$"))
	}},
	{"a text from the server stays one", func(ctx context.Context, b *browser, _ string) error {
		return errors.Join(b.click(ctx, `button[data-path="/grpc.testing.TestService/UnaryCall"]`),
			b.enter(ctx, "#request", `{"responseStatus":{"code":9,"message":"<img src=x onerror=document.title=1>"}}`),
			b.call(ctx, "^400 ", `<img src=x`), b.says(ctx, `document.getElementById("response").children.length`, "^0$"),
			b.says(ctx, "document.title", "^Call a method$"))
	}},
	{"a stream is called", func(ctx context.Context, b *browser, _ string) error {
		return errors.Join(b.click(ctx, `button[data-path="/grpc.testing.TestService/StreamingOutputCall"]`),
			b.says(ctx, `document.getElementById("name").textContent`, `^Stream /grpc.testing.TestService/StreamingOutputCall$`),
			b.enter(ctx, "#request", `{"responseParameters":[{"size":1},{"size":2}]}`),
			b.call(ctx, "^200 ", `(?s)^\{.*AA==.*\}\n\{.*AAA=.*\}\n$`))
	}},
	{"a stream without end is stopped", func(ctx context.Context, b *browser, _ string) error {
		return errors.Join(b.enter(ctx, "#request", `{"responseParameters":[{"size":1},{"size":2,"intervalUs":1000000000}]}`),
			b.click(ctx, "#call button"), b.says(ctx, `document.getElementById("response").textContent`, `(?s)^\{.*AA==.*\}\n$`),
			b.click(ctx, "#call button"), b.says(ctx, `document.getElementById("status").textContent`, "^Stopped$"))
	}},
	{"the list is filtered", func(ctx context.Context, b *browser, _ string) error {
		return errors.Join(b.enter(ctx, "#filter", "DIV"),
			b.says(ctx, `[...document.querySelectorAll("#methods button")].map((m) => m.dataset.path)`, `^/Arith/Div$`))
	}},
	{"an address with a method in it", func(ctx context.Context, b *browser, url string) error {
		return errors.Join(b.load(ctx, "about:blank"), b.load(ctx, url+"/#/Arith/Mul"),
			b.says(ctx, `document.getElementById("name").textContent`, `^POST /Arith/Mul$`))
	}},
}

// call clicks the button, and waits for the response.
func (b *browser) call(ctx context.Context, status, response string) error {
	return errors.Join(b.click(ctx, "#call button"),
		b.says(ctx, `document.getElementById("status").textContent`, status),
		b.says(ctx, `document.getElementById("response").textContent`, response))
}

// runChromium visits the page over HTTP/1.1, and over TLS by HTTP/2.
func runChromium(ctx context.Context, e *env) (passed, total int, err error) {
	for _, secure := range []bool{false, true} {
		version := "^http/1.1$"
		if secure {
			version = "^h2$"
		}
		spoken := visit{"by " + version, func(ctx context.Context, b *browser, _ string) error {
			return b.says(ctx, `performance.getEntriesByType("navigation")[0].nextHopProtocol`, version)
		}}
		n, failed := e.visit(ctx, e.url(secure), append([]visit{spoken}, visits...))
		passed, total, err = passed+n, total+1+len(visits), errors.Join(err, failed)
	}
	return passed, total, err
}

// visit makes visits with a new browser, and returns how many succeeded.
func (e *env) visit(ctx context.Context, url string, all []visit) (passed int, err error) {
	b, err := e.startBrowser(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	if err := b.load(ctx, url+"/"); err != nil {
		return 0, err
	}
	for _, v := range all {
		if failed := v.do(ctx, b, url); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s, %s: %w", url, v.name, failed))
			continue
		}
		passed++
	}
	return passed, err
}
