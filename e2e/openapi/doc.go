// Package openapi tests the OpenAPI documents of protocol/web with a validator of others.
package openapi
