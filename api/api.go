// Package api describes the public API: openapi.yaml, an OpenAPI 3.1 document. Package apitest
// holds what a gateway answers against it.
package api

import _ "embed"

// Document is openapi.yaml.
//
//go:embed openapi.yaml
var Document []byte
