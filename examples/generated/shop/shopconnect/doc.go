// Package shopconnect has the generated code of shop.proto for connect-go.
package shopconnect
