package tandem_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// recorded is a Body that records the response.
type recorded struct {
	tandem.Body
	answer any
}

func (r *recorded) Encode(v any) error {
	r.answer = v
	return r.Body.Encode(v)
}

// cached answers a repeated request itself, without the handler.
func cached(next tandem.Func) tandem.Func {
	var answers sync.Map
	return func(ctx context.Context, call *tandem.Call) error {
		var question string
		if err := call.Body.Decode(&question); err != nil {
			return err
		}
		if answer, ok := answers.Load(question); ok {
			return call.Body.Encode(answer)
		}
		body := &recorded{Body: call.Body}
		attempt := call.Clone()
		attempt.Body = body
		err := next(ctx, attempt)
		if err == nil {
			answers.Store(question, body.answer)
		}
		return err
	}
}

// An interceptor of a server may read a request, write its response, and see the
// response of the handler.
func ExampleBody() {
	srv := server.New(server.WithInterceptors(cached))
	check(server.Handle(srv, "Oracle.Ask", func(_ context.Context, question *string) (*int, error) {
		fmt.Println("pondering", *question)
		answer := 42
		return &answer, nil
	}))
	c, end := connect(srv)
	defer end()
	for range 2 {
		answer, err := client.Invoke[int](context.Background(), c, "Oracle.Ask", "the question")
		fmt.Println(*answer, err)
	}
	// Output:
	// pondering the question
	// 42 <nil>
	// 42 <nil>
}
