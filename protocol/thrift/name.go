package thrift

import "strings"

// candidates returns the methods on the server that a client's name may mean, in the order
// in which they are tried: "Desk:kind_of", the form of clients with several services, is
// Desk.kind_of or Desk.KindOf.
func candidates(name, service string) [2]string {
	method := name
	if s, m, ok := strings.Cut(name, ":"); ok {
		service, method = s, m
	}
	if service != "" {
		service += "."
	}
	return [2]string{service + method, service + goName(method)}
}

// bareName returns the name without its service, as it is in responses to clients with
// several services.
func bareName(name string) string {
	if _, bare, ok := strings.Cut(name, ":"); ok {
		return bare
	}
	return name
}

// goName returns the name that the Thrift compiler gives a method in Go: KindOf for
// kind_of, and GetID for get_id.
func goName(s string) string {
	var b strings.Builder
	for i, word := range strings.Split(s, "_") {
		switch upper := strings.ToUpper(word); {
		case word == "" || i > 0 && (word[0] < 'a' || word[0] > 'z'):
			if i > 0 {
				b.WriteByte('_')
			}
			b.WriteString(word)
		case initialisms[upper]:
			b.WriteString(upper)
		default:
			b.WriteString(upper[:1] + word[1:])
		}
	}
	n := b.String()
	if strings.HasPrefix(n, "New") || strings.HasSuffix(n, "Args") || strings.HasSuffix(n, "Result") {
		n += "_"
	}
	return n
}

// initialisms are the words that the compiler writes in capitals.
var initialisms = func() map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq("API ASCII CPU CSS DNS EOF GUID HTML HTTP HTTPS ID IP JSON LHS QPS RAM RHS RPC SLA SMTP " +
		"SSH TCP TLS TTL UDP UI UID UUID URI URL UTF8 VM XML XSRF XSS") {
		set[w] = true
	}
	return set
}()
